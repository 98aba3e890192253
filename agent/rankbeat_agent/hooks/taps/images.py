"""The first image of a step's inputs, at sampled steps, to the side file."""

from typing import Any

from rankbeat_contract import side

MAX_BYTES = 256 << 10
"""Of one image, one byte for each value; a larger one is left out."""
MIN_NS = 10_000_000_000
"""Between two images: they share their area of the side file with the histograms."""


def _picture(values: Any) -> Any:
    """Height, width, 1 or 3 channels, as bytes from 0, the smallest value, to 255; None where it is no picture."""
    import numpy  # noqa: ICN001, PLC0415 - imported by MindSpore

    if values.ndim == 2:
        values = values[:, :, None]
    elif values.shape[0] in (1, 3) and values.shape[2] not in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim != 3 or values.shape[2] not in (1, 3) or not 0 < values.size <= MAX_BYTES:
        return None
    if values.dtype == numpy.uint8:
        return values
    values = numpy.nan_to_num(values.astype("float32"), posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    return ((values - low) * (255.0 / (high - low) if high > low else 0.0)).astype("uint8")


class Images:
    """Which images were written."""

    __slots__ = ("next_ns",)

    def __init__(self) -> None:
        self.next_ns = 0

    def write(self, file: Any, step: int, now_ns: int, elements: Any) -> None:
        """Write the first image of each input of rank 3 or 4 (batch, then the image); in sink mode none is seen."""
        if now_ns < self.next_ns or not isinstance(elements, (list, tuple)):
            return
        self.next_ns = now_ns + MIN_NS
        for place, element in enumerate(elements):
            if len(getattr(element, "shape", ())) not in (3, 4):
                continue
            # Not element[0]: that is an operation on the device.
            picture = _picture(element.asnumpy()[0])
            if picture is not None:
                file.write(side.IMAGE, f"input_{place}", step, side.pack_image(picture.shape, picture.tobytes()))
