"""What a notebook uses."""

from rankbeat.api.frames import load

__all__ = ["load"]
