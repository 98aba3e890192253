"""Patches MindSpore's modules right after they are imported; imports nothing itself until then."""

import sys
import time

TYPE_CHECKING = False  # typing costs milliseconds in every interpreter of the pod
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

STARTED_WALL_NS = time.time_ns()
"""Start of the process, about 10 ms late."""


def _patch_communication(module: "Any") -> None:
    from rankbeat_agent.hooks import communication  # noqa: PLC0415 - only where MindSpore is

    communication.patch(module)


def _patch_model(module: "Any") -> None:
    from rankbeat_agent.hooks import model  # noqa: PLC0415 - only where MindSpore is

    model.patch(module)


_PATCHES = {
    "mindspore.communication.management": _patch_communication,
    "mindspore.train.model": _patch_model,
}


class _Loader:
    """Loads a module as its own loader does, then patches it."""

    def __init__(self, inner: "Any", patch: "Callable[[Any], None]") -> None:
        self.inner = inner
        self.patch = patch

    def create_module(self, spec: "Any") -> "Any":
        return self.inner.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        # First, so that MindSpore's graph parser, which asks inspect for sources, finds the real loader.
        module.__loader__ = module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        try:
            self.patch(module)
        except Exception as error:  # noqa: BLE001 - a door: the module is whole without us
            if sys.stderr is not None:
                sys.stderr.write(f"rankbeat: {module.__name__} not hooked: {error!r}; training goes on unseen\n")


class _Finder:
    """Finds the modules of _PATCHES by asking the finders after it."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Optional[Any]":
        patch = _PATCHES.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, patch)
                return spec
        return None


_FINDER = _Finder()


def install() -> None:
    """Watch for the imports. Idempotent: a `.pth` in a virtual environment runs three times."""
    if not any(finder is _FINDER for finder in sys.meta_path):
        sys.meta_path.insert(0, _FINDER)
