"""Shapes and types of what the dataset gives to a step: each set once, to the side file."""

import json
from typing import Any, Dict, Set

from rankbeat_contract import side

MAX_SETS = 64
"""Sets of shapes that are written: a dynamic dataset may give thousands."""


class Shapes:
    """Sets of shapes seen so far."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: Set[str] = set()

    def sample(self, file: Any, step: int, parameters: Dict[str, Any]) -> None:
        """Write this step's input shapes if they are new; in sink mode the dataset's elements are not seen."""
        elements = parameters.get("train_dataset_element")
        if file is None or not isinstance(elements, (list, tuple)) or len(self.seen) >= MAX_SETS:
            return
        tensors = [element for element in elements if hasattr(element, "shape")]
        inputs = [{"shape": list(tensor.shape), "dtype": str(tensor.dtype)} for tensor in tensors]
        text = json.dumps(inputs)
        if text not in self.seen:
            self.seen.add(text)
            file.write(side.SHAPES, "input_shapes", step, json.dumps({"step": step, "inputs": inputs}).encode())
