import hashlib
import os
import tarfile

from rankbeat_images import layers


def a_folder(path, *names):
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(f"content of {name}\n")
    return path


def a_layer(folder, target, place="/"):
    return layers.written_layer(folder, place, target, name="test", stable=True)


def entries(layer):
    with tarfile.open(layer.path) as tar:
        return {entry.name: entry for entry in tar.getmembers()}


def test_equal_contents_give_equal_bytes_whatever_their_age_owner_and_order(tmp_path):
    first = a_folder(tmp_path / "first", "b/two", "a/one")
    second = a_folder(tmp_path / "second", "a/one", "b/two")
    os.utime(second / "a/one", (1, 1))
    (second / "b/two").chmod(0o600)
    os.chown(second / "a", os.getuid(), os.getgid())

    written = a_layer(first, tmp_path / "1.tar"), a_layer(second, tmp_path / "2.tar")

    assert written[0].path.read_bytes() == written[1].path.read_bytes()


def test_a_layer_knows_the_digest_and_size_of_its_file(tmp_path):
    layer = a_layer(a_folder(tmp_path / "root", "etc/passwd"), tmp_path / "root.tar")

    content = layer.path.read_bytes()
    assert (layer.digest, layer.size_bytes) == (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


def test_entries_are_sorted_parents_first_and_lie_at_their_place(tmp_path):
    layer = a_layer(a_folder(tmp_path / "site", "kopf/cli.py", "aiohttp.py"), tmp_path / "site.tar", "/opt/site")

    assert list(entries(layer)) == [
        "opt",
        "opt/site",
        "opt/site/aiohttp.py",
        "opt/site/kopf",
        "opt/site/kopf/cli.py",
    ]


def test_everything_belongs_to_root_at_time_zero_with_one_of_three_modes(tmp_path):
    root = a_folder(tmp_path / "root", "bin/tool", "etc/passwd", "tmp/x")
    (root / "bin/tool").chmod(0o4700)
    (root / "etc/passwd").chmod(0o640)
    (root / "tmp").chmod(0o1777)

    found = entries(a_layer(root, tmp_path / "root.tar"))

    assert {name: oct(entry.mode) for name, entry in found.items()} == {
        "bin": "0o755",
        "bin/tool": "0o755",
        "etc": "0o755",
        "etc/passwd": "0o644",
        "tmp": "0o1777",
        "tmp/x": "0o644",
    }
    assert {(entry.uid, entry.gid, entry.mtime) for entry in found.values()} == {(0, 0, 0)}


def test_links_between_files_of_a_package_cache_become_files(tmp_path):
    root = a_folder(tmp_path / "root", "one")
    (root / "two").hardlink_to(root / "one")

    found = entries(a_layer(root, tmp_path / "root.tar"))

    assert all(entry.isreg() and entry.size for entry in found.values())


def test_symbolic_links_stay_links(tmp_path):
    root = a_folder(tmp_path / "root", "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")

    found = entries(a_layer(root, tmp_path / "root.tar"))["bin/sh"]

    assert (found.type, found.linkname) == (tarfile.SYMTYPE, "busybox")
