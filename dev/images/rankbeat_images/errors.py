"""What can be missing when images are written."""

from pathlib import Path


class UnknownImageError(ValueError):
    """The command line names an image that no recipe describes."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no image is called {name!r}, choose from {', '.join(known)}")
        self.name = name


class MissingInputError(FileNotFoundError):
    """A file that a layer is made of is not there."""

    def __init__(self, path: Path, remedy: str) -> None:
        super().__init__(f"missing {str(path)!r}: {remedy}")
        self.path = path


class DebianPackagesError(RuntimeError):
    """The package index of this machine does not offer what an image needs."""

    def __init__(self, packages: tuple[str, ...], output: str) -> None:
        super().__init__(f"cannot resolve Debian packages {' '.join(packages)}, run apt-get update: {output.strip()!r}")
        self.packages = packages
