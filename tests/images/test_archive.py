import hashlib
import json
import tarfile

import pytest

from rankbeat_images import archive, layers


@pytest.fixture
def an_image(tmp_path):
    written = []
    for name, stable in (("debian", True), ("packages", True), ("own", False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.txt").write_text(name)
        written.append(layers.written_layer(folder, "/", tmp_path / f"{name}.layer", name=name, stable=stable))
    settings = archive.Settings((("PATH", "/usr/bin"), ("PYTHONPATH", "/opt/site")), ("/bin/prometheus",), "/tmp")
    return archive.image("localhost/rankbeat/operator:dev", tuple(written), settings, "amd64")


def files(path):
    with tarfile.open(path) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers()}


def blob(found, digest):
    return found[f"blobs/{digest.replace(':', '/')}"]


def test_an_image_written_twice_is_the_same_to_the_byte(an_image, tmp_path):
    for name in ("first.tar", "second.tar"):
        archive.write_archive(tmp_path / name, an_image, thin=False)

    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_the_archive_is_an_oci_layout_whose_digests_and_sizes_hold(an_image, tmp_path):
    archive.write_archive(tmp_path / "image.tar", an_image, thin=False)

    found = files(tmp_path / "image.tar")
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [described] = json.loads(found["index.json"])["manifests"]
    manifest = json.loads(blob(found, described["digest"]))
    for descriptor in (described, manifest["config"], *manifest["layers"]):
        content = blob(found, descriptor["digest"])
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert descriptor["size"] == len(content)
    assert len(found) == 2 + 1 + 1 + 3


def test_containerd_finds_the_whole_reference_in_the_index(an_image, tmp_path):
    archive.write_archive(tmp_path / "image.tar", an_image, thin=False)

    [described] = json.loads(files(tmp_path / "image.tar")["index.json"])["manifests"]

    assert described["annotations"]["io.containerd.image.name"] == "localhost/rankbeat/operator:dev"


def test_layers_keep_their_order_in_manifest_and_configuration(an_image):
    expected = [layer.digest for layer in an_image.layers]

    assert [layer["digest"] for layer in json.loads(an_image.manifest)["layers"]] == expected
    assert json.loads(an_image.config)["rootfs"]["diff_ids"] == expected


def test_a_container_starts_as_an_ordinary_user_with_the_settings(an_image):
    assert json.loads(an_image.config)["config"] == {
        "User": "65532:65532",
        "Env": ["PATH=/usr/bin", "PYTHONPATH=/opt/site"],
        "WorkingDir": "/tmp",
        "Entrypoint": ["/bin/prometheus"],
    }


def test_a_thin_archive_is_the_same_image_without_its_stable_layers(an_image, tmp_path):
    archive.write_archive(tmp_path / "full.tar", an_image, thin=False)
    archive.write_archive(tmp_path / "thin.tar", an_image, thin=True)

    full, thin = files(tmp_path / "full.tar"), files(tmp_path / "thin.tar")

    left_out = {f"blobs/{layer.digest.replace(':', '/')}" for layer in an_image.layers if layer.stable}
    assert thin == {name: content for name, content in full.items() if name not in left_out}
