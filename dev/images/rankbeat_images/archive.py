"""An image as an OCI layout in one tar, as `ctr images import` reads it."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankbeat_images.layers import Layer

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
NAME_ANNOTATION = "io.containerd.image.name"
USER = "65532:65532"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a container of the image starts with, where the pod says nothing else."""

    environment: tuple[tuple[str, str], ...]
    entrypoint: tuple[str, ...] = ()
    working_folder: str = "/"


@dataclass(frozen=True, slots=True)
class Image:
    """A complete image: its reference, and the documents that name its layers."""

    ref: str
    layers: tuple[Layer, ...]
    config: bytes
    manifest: bytes

    @property
    def digest(self) -> str:
        """Digest of the manifest: the image's identity."""
        return _digest(self.manifest)

    @property
    def config_digest(self) -> str:
        """Digest of the configuration: the image id that the container runtime interface shows."""
        return _digest(self.config)


def image(ref: str, layers: tuple[Layer, ...], settings: Settings, architecture: str) -> Image:
    """The image with these layers, lowest first. architecture: Debian's name, which is also Go's."""
    config = _json(_config(layers, settings, architecture))
    described = [_descriptor(LAYER_TYPE, layer.digest, layer.size_bytes) for layer in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _descriptor(CONFIG_TYPE, _digest(config), len(config)),
        "layers": described,
    }
    return Image(ref, layers, config, _json(manifest))


def write_archive(target: Path, made: Image, *, thin: bool) -> None:
    """Write the image to target. thin: without its stable layers, which the content store must hold already."""
    unfinished = target.with_suffix(".unfinished")
    with tarfile.open(unfinished, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _add_bytes(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add_bytes(tar, "index.json", _json(_index(made)))
        _add_bytes(tar, _blob(made.digest), made.manifest)
        _add_bytes(tar, _blob(made.config_digest), made.config)
        for layer in made.layers:
            if not (thin and layer.stable):
                _add_layer(tar, layer)
    unfinished.replace(target)


def _config(layers: tuple[Layer, ...], settings: Settings, architecture: str) -> Mapping[str, object]:
    container: dict[str, object] = {
        "User": USER,
        "Env": [f"{name}={value}" for name, value in settings.environment],
        "WorkingDir": settings.working_folder,
    }
    if settings.entrypoint:
        container["Entrypoint"] = list(settings.entrypoint)
    return {
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture,
        "os": "linux",
        "config": container,
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": layer.name} for layer in layers],
    }


def _index(made: Image) -> Mapping[str, object]:
    described = _descriptor(MANIFEST_TYPE, made.digest, len(made.manifest))
    annotations = {NAME_ANNOTATION: made.ref, "org.opencontainers.image.ref.name": made.ref.rpartition(":")[2]}
    return {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [{**described, "annotations": annotations}]}


def _descriptor(media_type: str, digest: str, size_bytes: int) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest, "size": size_bytes}


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _add_layer(tar: tarfile.TarFile, layer: Layer) -> None:
    entry = tarfile.TarInfo(_blob(layer.digest))
    entry.size = layer.size_bytes
    with layer.path.open("rb") as file:
        tar.addfile(entry, file)


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
