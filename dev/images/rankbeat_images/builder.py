"""Layers and images from their recipes, each written once per set of inputs."""

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rankbeat_images import archive, debian, layers, places, python_packages, recipes

KEPT_VERSIONS = 2  # of each layer and archive: this checkout's and one other's
REF = "localhost/rankbeat/{name}:dev"


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where images are made. repository: what is copied from; cache: shared by all checkouts."""

    repository: Path
    cache: Path
    architecture: str

    def folder(self, name: str) -> Path:
        """A folder of the cache, which exists."""
        path = self.cache / name
        path.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True, slots=True)
class Written:
    """An image with its two archives. site: the folder to mount at /opt/site, where the image expects one."""

    image: archive.Image
    tar: Path
    thin: Path
    site: Path | None
    layers_from_cache: int


def workshop() -> Workshop:
    """The workshop of this checkout and this machine."""
    return Workshop(places.REPOSITORY, places.cache_folder() / "images", debian.architecture())


@contextlib.contextmanager
def alone(shop: Workshop) -> Iterator[None]:
    """Keep other writers out of the cache meanwhile."""
    with (shop.folder("layers") / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def written_image(shop: Workshop, name: str) -> Written:
    """The image of that name, complete on disk."""
    recipe = recipes.RECIPES[name]
    made, cached = [], 0
    for part in recipe.layers:
        key = _key(shop, part)
        cached += _layer_path(shop, f"{part.name}-{key}").exists()
        made.append(_layer(shop, part, key, stable=recipes.is_stable(part)))
    image = archive.image(REF.format(name=name), tuple(made), recipe.settings, shop.architecture)
    site = _site_folder(shop, recipe.mounted, _key(shop, recipe.mounted)) if recipe.mounted else None
    tar, thin = (_archive(shop, name, image, thin=thin) for thin in (False, True))
    _keep_newest(shop.folder("archives"), f"{name}-????????????.tar", tar)
    _keep_newest(shop.folder("archives"), f"{name}-????????????.thin.tar", thin)
    return Written(image, tar, thin, site, cached)


def host_tool(shop: Workshop, name: str) -> Path:
    """A program for the host, copied out of its Debian package once per version."""
    tool = recipes.TOOLS[name]
    resolved = debian.resolved_packages((tool.package,), shop.folder("debs"))
    folder = places.cache_folder() / "bin-debian"
    path, version = folder / name, folder / f".{name}.version"
    if not path.exists() or not version.exists() or version.read_text() != resolved[0].file:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=shop.cache) as root:
            debian.unpack(resolved, shop.folder("debs"), Path(root))
            (Path(root) / tool.program).replace(path)
        version.write_text(resolved[0].file)
    return path


def _archive(shop: Workshop, name: str, image: archive.Image, *, thin: bool) -> Path:
    """Named by content, so that an image already written is not written again."""
    short = hashlib.sha256(f"{image.ref}{image.digest}{_sources('archive')}".encode()).hexdigest()[:12]
    target = shop.folder("archives") / f"{name}-{short}{'.thin' if thin else ''}.tar"
    if target.exists():
        target.touch()
    else:
        archive.write_archive(target, image, thin=thin)
    return target


def _layer(shop: Workshop, part: recipes.LayerRecipe, key: str, *, stable: bool) -> layers.Layer:
    path = _layer_path(shop, f"{part.name}-{key}")
    facts = path.with_suffix(".json")
    if path.exists() and facts.exists():
        path.touch()
        return layers.Layer(part.name, path, stable=stable, **json.loads(facts.read_text()))
    if isinstance(part, recipes.LockedPackages) and part.kept:
        layer = layers.written_layer(_site_folder(shop, part, key), recipes.SITE, path, name=part.name, stable=stable)
    else:
        with tempfile.TemporaryDirectory(dir=shop.cache) as folder:
            place = _fill(shop, part, Path(folder))
            layer = layers.written_layer(Path(folder), place, path, name=part.name, stable=stable)
    facts.write_text(json.dumps({"digest": layer.digest, "size_bytes": layer.size_bytes}))
    _keep_newest(path.parent, f"{part.name}-{'?' * len(key)}.tar", path)
    return layer


def _fill(shop: Workshop, part: recipes.LayerRecipe, folder: Path) -> str:
    """Make the layer's contents in folder; where they belong in the image."""
    match part:
        case recipes.PythonRoot(packages=names):
            debian.unpack(debian.resolved_packages(names, shop.folder("debs")), shop.folder("debs"), folder)
            debian.finish_python_root(folder)
            return "/"
        case recipes.DebianFiles():
            _fill_with_debian_files(shop, part, folder)
            return "/"
        case recipes.LockedPackages(locks=locks, leave_out=leave_out):
            target = python_packages.Target(folder, recipes.SITE)
            paths = tuple(shop.repository / lock for lock in locks)
            python_packages.install_locked(paths, target, shop.architecture, leave_out)
            return recipes.SITE
        case recipes.OwnPackages(packages=packages):
            target = python_packages.Target(folder, recipes.OWN)
            python_packages.copy_own(tuple(shop.repository / package for package in packages), target)
            return recipes.OWN
        case recipes.RepositoryFiles(files=files):
            for source, place in files:
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(shop.repository / source, folder / place)
            return "/"


def _fill_with_debian_files(shop: Workshop, part: recipes.DebianFiles, folder: Path) -> None:
    debs = shop.folder("debs")
    with tempfile.TemporaryDirectory(dir=shop.cache) as unpacked:
        root = Path(unpacked) if part.keep else folder
        debian.unpack(debian.resolved_packages(part.packages, debs), debs, root)
        for name in part.keep:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).replace(folder / name)
    for name, target in part.links:
        debian.link(folder, name, target)


def _site_folder(shop: Workshop, part: recipes.LockedPackages, key: str) -> Path:
    """The installed packages as a folder, complete or absent."""
    folder = shop.folder("site") / f"{part.name}-{key}"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _fill(shop, part, unfinished)
        unfinished.rename(folder)
    folder.touch()
    _keep_newest(folder.parent, f"{part.name}-{'?' * len(key)}", folder)
    return folder


def _key(shop: Workshop, part: recipes.LayerRecipe) -> str:
    """Digest of all that decides a layer's bytes: recipe, inputs, and the code that makes it."""
    digest = hashlib.sha256(f"{part!r} {shop.architecture} {importlib.util.MAGIC_NUMBER!r}".encode())
    digest.update(_sources("layers", "bytecode").encode())
    match part:
        case recipes.PythonRoot(packages=names) | recipes.DebianFiles(packages=names):
            digest.update(_sources("debian").encode())
            digest.update(repr(debian.resolved_packages(names, shop.folder("debs"))).encode())
        case recipes.LockedPackages(locks=locks):
            digest.update(_sources("python_packages").encode())
            _update(digest, *(python_packages.present(shop.repository / lock, "run dev/lock.sh") for lock in locks))
        case recipes.OwnPackages(packages=packages):
            digest.update(_sources("python_packages").encode())
            for package in packages:
                _update(digest, *python_packages.own_files(shop.repository / package), below=shop.repository)
        case recipes.RepositoryFiles(files=files):
            _update(digest, *(shop.repository / source for source, _ in files))
    return digest.hexdigest()[:16]


def _update(digest: "hashlib._Hash", *paths: Path, below: Path | None = None) -> None:
    for path in paths:
        content = path.read_bytes()
        name = path.relative_to(below) if below else path.name
        digest.update(f"{name} {path.stat().st_mode & 0o100} {len(content)}\n".encode() + content)


def _sources(*modules: str) -> str:
    """Digest of modules of this package."""
    texts = (Path(__file__).with_name(f"{module}.py").read_bytes() for module in modules)
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _layer_path(shop: Workshop, name: str) -> Path:
    return shop.folder("layers") / f"{name}.tar"


def _keep_newest(folder: Path, pattern: str, current: Path) -> None:
    others = sorted((path for path in folder.glob(pattern) if path != current), key=lambda path: path.stat().st_mtime)
    for path in others[: -(KEPT_VERSIONS - 1)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
