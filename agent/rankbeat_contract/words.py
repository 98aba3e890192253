"""What somebody probably meant."""

import difflib
from typing import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'X'?` for the known word most like word, empty if none is."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""
