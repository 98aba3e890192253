"""Runs at the start of every Python process of a training pod, in place of the sitecustomize that it shadows.

In a pod this file is /rankbeat/agent/sitecustomize.py and its folder stands first on PYTHONPATH. All that a process
needs which never imports MindSpore is in this one file: to look for another costs it a quarter of a millisecond.
"""

import os
import sys
import time

TYPE_CHECKING = False  # typing costs milliseconds in every interpreter of the pod
if TYPE_CHECKING:
    from typing import Any, Optional

PATCHED = frozenset(
    (
        "mindspore.communication.management",
        "mindspore.train.model",
        "mindspore.train.serialization",
        "mindspore.parallel.checkpoint_transform",
        "mindspore.nn.wrap.cell_wrapper",
        "mindspore.nn.optim.optimizer",
        "mindspore.experimental.optim.optimizer",
        "mindformers.checkpoint.checkpoint",
        "mindformers.tools.register.template",
        "mindformers.trainer.trainer",
        "mindformers.pynative.callback.callback",
        "mindformers.pynative.trainer.trainer",
    )
)
"""Each has a function in hooks/patches.py."""
_OWN = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs milliseconds here


class _Loader:
    """Loads a module as its own loader does, then has it patched."""

    def __init__(self, inner: "Any") -> None:
        self.inner = inner
        self.create_module = inner.create_module

    def exec_module(self, module: "Any") -> None:
        # First, so that MindSpore's graph parser, which asks inspect for sources, finds the real loader.
        module.__loader__ = module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        path = sys.path
        try:
            if _OWN not in path:  # a script that has made a path of its own
                sys.path = [_OWN, *path]
            from rankbeat_agent.hooks import patches  # noqa: PLC0415 - only where MindSpore is

            patches.patch(module, RankbeatFinder.started_wall_ns)
        except Exception as error:  # noqa: BLE001 - a door: the module is whole without us
            if sys.stderr is not None:
                sys.stderr.write(f"rankbeat: {module.__name__} not hooked: {error!r}; training goes on unseen\n")
        finally:
            sys.path = path


class RankbeatFinder:
    """Finds the modules of PATCHED by asking the finders after it."""

    started_wall_ns = time.time_ns()
    """Start of the process, about 10 ms late."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Optional[Any]":
        if name not in PATCHED:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def _install() -> None:
    """Watch for the imports. By name, since a `.pth` in a virtual environment runs this file three times."""
    # Spelled out: to import names.py costs every interpreter; tests/agent/test_autoload.py compares the two.
    if "RANKBEAT_RING_DIR" not in os.environ or os.environ.get("MS_ROLE") in ("MS_SCHED", "MS_PSERVER"):
        return
    if not any(type(finder).__name__ == "RankbeatFinder" for finder in sys.meta_path):
        sys.meta_path.insert(0, RankbeatFinder())


def _run_shadowed() -> None:
    """Run the sitecustomize that would have run without us: the next one on sys.path after our folder."""
    import _frozen_importlib  # noqa: PLC0415 - what importlib is made of, in memory already; importlib.util is not
    import _frozen_importlib_external  # noqa: PLC0415

    folders = [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100
    # Only after ours: another injector that stands before us has run and chained to us.
    rest = sys.path[folders.index(_OWN) + 1 :] if _OWN in folders else []
    spec = _frozen_importlib_external.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None and spec.origin != os.path.abspath(__file__):  # noqa: PTH100
        module = _frozen_importlib.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    _install()
except BaseException as error:  # noqa: BLE001 - a door: the interpreter starts whatever happens here
    if sys.stderr is not None:
        sys.stderr.write(f"rankbeat: agent not loaded: {error!r}; training goes on, this process is not seen\n")
# Outside the try: what the shadowed one raises ends where it would have ended without us.
_run_shadowed()
