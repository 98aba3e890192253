"""python -m rankbeat_images [NAME...]: write images (all, where none is named) and build/images.json.

An entry of build/images.json:
ref; tar, the whole image; thin, the same image without its stable layers (thin_needs): it imports in 0.1 s where the
content store holds these, and fails with "content digest ... not found" where it does not (then import tar);
digest of the manifest; id, which the container runtime interface shows; layers, lowest first, each with its own tar;
mount, only where packages must be mounted: folder on this machine, at path in the container.
build/tools.json names programs for the host: promtool (with prometheus), amtool (with alertmanager).
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rankbeat_images import builder, errors, recipes


def main(arguments: list[str]) -> int:
    """Exit code of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rankbeat_images", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(recipes.RECIPES))
    names = tuple(parser.parse_args(arguments).names) or tuple(recipes.RECIPES)
    try:
        write_images(names)
    except (errors.UnknownImageError, errors.MissingInputError, errors.DebianPackagesError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def write_images(names: tuple[str, ...]) -> None:
    """Write the named images and enter them in build/images.json, their tools in build/tools.json.

    Raises: UnknownImageError, MissingInputError, DebianPackagesError.
    """
    for name in names:
        if name not in recipes.RECIPES:
            raise errors.UnknownImageError(name, tuple(recipes.RECIPES))
    shop = builder.workshop()
    build = shop.repository / "build"
    build.mkdir(exist_ok=True)
    with builder.alone(shop):
        for name in names:
            began = time.monotonic()
            written = builder.written_image(shop, name)
            _enter(build / "images.json", {name: _described(written)})
            _report(name, written, time.monotonic() - began)
            tools = {tool: str(builder.host_tool(shop, tool)) for tool, of in recipes.TOOLS.items() if of.image == name}
            _enter(build / "tools.json", tools)


def _described(written: builder.Written) -> Mapping[str, object]:
    image = written.image
    described: dict[str, object] = {
        "ref": image.ref,
        "tar": str(written.tar),
        "thin": str(written.thin),
        "thin_needs": [layer.digest for layer in image.layers if layer.stable],
        "digest": image.digest,
        "id": image.config_digest,
        "layers": [
            {"name": layer.name, "digest": layer.digest, "bytes": layer.size_bytes, "path": str(layer.path)}
            for layer in image.layers
        ],
    }
    if written.site:
        described["mount"] = {"folder": str(written.site), "at": recipes.SITE}
    return described


def _enter(path: Path, entries: Mapping[str, object]) -> None:
    """Add the entries to a JSON object on disk; what stands there under other names is kept."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps({**kept, **entries}, indent=2) + "\n")
    unfinished.replace(path)


def _report(name: str, written: builder.Written, seconds: float) -> None:
    megabytes = written.tar.stat().st_size / 1e6
    layers = len(written.image.layers)
    print(
        f"{name:<13} {seconds:6.1f} s {megabytes:7.1f} MB  thin {written.thin.stat().st_size / 1e6:.1f} MB  "
        f"{written.layers_from_cache} of {layers} layers from cache",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
