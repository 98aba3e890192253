"""What a job and its owner use: `rankbeat.log` inside a training script, `rankbeat.load` on files, the command line.

`import rankbeat` imports nothing else, so that a training script may do it at no cost.
"""

import sys

TYPE_CHECKING = False  # typing costs milliseconds where nobody has imported it
if TYPE_CHECKING:
    from typing import Any

_LAZY = {"load": "rankbeat.api"}
"""Where each attribute is found that needs more than this module."""


def log(**values: float) -> None:
    """Show values of your own beside those of the agent: `rankbeat.log(accuracy=0.93)`.

    Names are lower case letters, digits and _; values are numbers, noted at the last finished
    step. Does nothing where the process has no agent, and never raises: the script runs the same without Rankbeat.
    """
    user = sys.modules.get("rankbeat_agent.hooks.user")
    if user is not None:
        user.log(values)


def __getattr__(name: str) -> "Any":
    """Attributes that need third-party packages, imported when first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - only where more than log is wanted

    return getattr(importlib.import_module(_LAZY[name]), name)
