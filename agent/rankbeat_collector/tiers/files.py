"""What may be read of a pod beside its rings: regular files by checked names, opened as rings are."""

import re
from typing import Dict, List, Tuple

from rankbeat_collector.ring import folder as folders
from rankbeat_collector.ring.folder import Found

MAX_FILES = 80
"""Files of one folder: step files of a pod of 64 ranks, and some that a restart left behind."""
_MAX_ENTRIES = 256
_MAX_BYTES = 4 << 30
"""Nobody's step file or log is larger; what is read in one poll has a limit of its own."""


def listed(folder: int, names: "re.Pattern[str]") -> Tuple[List[Found], Dict[str, int]]:
    """Files with such names, newest first, and how many of them were refused, by reason."""
    return folders.listed(folder, lambda name: names.fullmatch(name) is not None, _file, (_MAX_ENTRIES, MAX_FILES))


def _file(folder: int, name: str) -> Found:
    return folders.found_file(folder, name, _MAX_BYTES)
