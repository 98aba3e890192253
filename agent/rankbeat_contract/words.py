"""What somebody probably meant."""

import difflib
from typing import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'X'?` for the known word most like word, empty if none is."""
    spelt = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower(), list(spelt), n=1, cutoff=0.6)
    return f", did you mean {spelt[close[0]]!r}?" if close else ""
