"""Keeps secrets out of what is written about a run: by the name of a setting, and by the shape of a value."""

import re
from typing import Any, List, Sequence

HIDDEN = "***"
_KEY = re.compile(
    r"pass(word|wd|phrase)?$|pwd$|secret|token$|api_?key|access_?key|private_?key|credential|authorization|^auth$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"-----BEGIN|^AKIA[0-9A-Z]{12,}|^gh[pousr]_|^github_pat_|^glpat-|^hf_[A-Za-z0-9]{16,}|^xox[abprs]-|^sk-[A-Za-z0-9_-]{16,}"
    r"|^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.|^Bearer |://[^/\s:@]+:[^/\s@]+@"
)
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_MAX_DEPTH = 16


def is_secret_key(key: str) -> bool:
    """Whether a setting of this name holds a secret: `db_password`, `--api-key`, not `max_tokens` of a number."""
    return _KEY.search(key.lstrip("-").replace("-", "_").replace(".", "_")) is not None


def is_secret_value(text: str) -> bool:
    """Whether a text has the shape of a credential: a known prefix, or 32 characters of letters and digits mixed."""
    if _VALUE.search(text):
        return True
    if not _LONG.fullmatch(text):
        return False
    # A path, a name or a hash tag of words has no digits among capitals and small letters.
    kinds = (any(c.isdigit() for c in text), any(c.islower() for c in text), any(c.isupper() for c in text))
    return all(kinds) or re.fullmatch(r"[0-9a-f]{32,}|[0-9A-F]{32,}", text) is not None


def filtered(value: Any, depth: int = 0) -> Any:
    """value as JSON may hold it, secrets hidden; numbers and booleans stay, what JSON cannot hold is its text."""
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        return {
            str(key): HIDDEN if is_secret_key(str(key)) and isinstance(each, str) else filtered(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [filtered(each, depth + 1) for each in value]
    text = str(value)
    return HIDDEN if is_secret_value(text) else text[:1024]


def arguments(argv: Sequence[str]) -> List[str]:
    """A command line, secrets hidden: in `--token X`, `--token=X` and `token=X`, and values that look like one."""
    shown: List[str] = []
    hides_next = False
    for argument in argv:
        key, equals, value = argument.partition("=")
        is_hidden = hides_next and not argument.startswith("--")
        hides_next = False
        if is_hidden or is_secret_value(argument):
            shown.append(HIDDEN)
        elif equals and (is_secret_key(key) or is_secret_value(value)):
            shown.append(f"{key}={HIDDEN}")
        else:
            hides_next = not equals and argument.startswith("-") and is_secret_key(argument)
            shown.append(argument)
    return shown
