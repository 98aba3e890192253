"""Runs at the start of every Python process of a training pod, in place of the sitecustomize that it shadows.

In a pod this file is /rankbeat/agent/sitecustomize.py and its folder stands first on PYTHONPATH.
"""

import os
import sys


def _install() -> None:
    # Spelled out: to import names.py costs every interpreter; tests/agent/test_autoload.py compares the two.
    if "RANKBEAT_RING_DIR" in os.environ and os.environ.get("MS_ROLE") not in ("MS_SCHED", "MS_PSERVER"):
        from rankbeat_agent.hooks import imports  # noqa: PLC0415 - only the processes that may train pay for it

        imports.install()


def _run_shadowed() -> None:
    """Run the sitecustomize that would have run without us: the next one on sys.path after our folder."""
    import _frozen_importlib  # noqa: PLC0415 - what importlib is made of, in memory already; importlib.util is not
    import _frozen_importlib_external  # noqa: PLC0415

    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs milliseconds here
    folders = [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100
    # Only after ours: another injector that stands before us has run and chained to us.
    rest = sys.path[folders.index(own) + 1 :] if own in folders else []
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
