"""An attribute of a cell that is decided when MindSpore compiles the cell, not when it is made."""

from typing import Any, Callable


class Late:
    """Asks a function of the cell, in Python, each time that it is read.

    Not a property: the graph parser compiles a property's function (2.10.0), and that of any other descriptor it calls.
    """

    def __init__(self, decide: Callable[[Any], bool]) -> None:
        self.decide = decide

    def __get__(self, cell: Any, _owner: Any) -> Any:
        return self if cell is None else self.decide(cell)
