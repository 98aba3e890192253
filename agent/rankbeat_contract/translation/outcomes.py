"""What became of each key, and the spec that grows meanwhile."""

from typing import Any, Dict, List, NamedTuple, Tuple

TRANSLATED = "translated"
KEPT = "nothing to set"
REFUSED = "refused"

DEFAULT_SIGNALS = ("loss", "learningRate", "throughput", "memory", "evaluation", "checkpoint")


class Outcome(NamedTuple):
    """What became of one key. verdict: TRANSLATED, KEPT or REFUSED. text: the field with its value, or the reason."""

    key: str
    verdict: str
    text: str


class Translation(NamedTuple):
    """spec: fields of a TrainingMonitor's spec, its target not among them."""

    spec: Dict[str, Any]
    outcomes: Tuple[Outcome, ...]

    @property
    def refused(self) -> Tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.verdict == REFUSED)


class Refused(ValueError):  # noqa: N818 - a verdict on a key, not a failure
    """A key whose wish cannot or must not be met; the message is the reason."""


class Draft:
    """The translation as far as it has come."""

    def __init__(self) -> None:
        self.spec: Dict[str, Any] = {}
        self.outcomes: List[Outcome] = []
        self.files: Dict[str, Any] = {}
        """Fields that each entry of outputs.files gets."""
        self.formats: Dict[str, str] = {}
        """Formats of files asked for, with the path of each, "" for the default."""
        self.mindformers: Dict[str, Any] = {}
        self.console = ""
        """Key that asks for a console line."""
        self.ranks: Tuple[str, str] = ("", "")
        """Which ranks write: the key that says so, and what it says."""

    def sets(self, key: str, field: str, value: Any) -> None:
        """field (dots between) has value.

        Raises: Refused if another key has said otherwise.
        """
        section = self.spec
        *parents, last = field.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
        if section.get(last, value) != value:
            raise Refused(f"another key has set spec.{field} to {section[last]!r}: write one of the two")
        section[last] = value
        self.note(key, TRANSLATED, f"spec.{field}: {shown(value)}")

    def signal(self, key: str, signal: str) -> None:
        """signal is asked for, beside the default ones, which cost nothing."""
        if signal in DEFAULT_SIGNALS:
            self.note(key, KEPT, f"signal {signal} is collected by default")
            return
        signals = self.spec.setdefault("signals", list(DEFAULT_SIGNALS))
        if signal not in signals:
            signals.append(signal)
        self.note(key, TRANSLATED, f"spec.signals: {signal}")

    def keeps(self, key: str, text: str) -> None:
        """Nothing to set for key."""
        self.note(key, KEPT, text)

    def note(self, key: str, verdict: str, text: str) -> None:
        self.outcomes.append(Outcome(key, verdict, text))


def shown(value: object) -> str:
    """A value in YAML's manner, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."


def count(value: object) -> int:
    """A whole number from 1, also of a text.

    Raises: Refused on anything else.
    """
    if type(value) is int and value > 0:
        return value
    if isinstance(value, str) and value.isdigit() and int(value) > 0:
        return int(value)
    raise Refused(f"{shown(value)!r} is no whole number from 1")


def switch(value: object) -> bool:
    """true or false.

    Raises: Refused on anything else.
    """
    if isinstance(value, bool):
        return value
    raise Refused(f"{shown(value)!r} is neither true nor false")


def text(value: object) -> str:
    """A text that is not empty.

    Raises: Refused on anything else.
    """
    if isinstance(value, str) and value:
        return value
    raise Refused(f"{shown(value)!r} is no text")


def texts(value: object) -> List[str]:
    """A text, or a list of them.

    Raises: Refused on anything else.
    """
    if isinstance(value, list):
        return [text(each) for each in value]
    return [text(value)]


def fields(value: object) -> Dict[str, Any]:
    """An object with named fields.

    Raises: Refused on anything else.
    """
    if isinstance(value, dict):
        return value
    raise Refused(f"{shown(value)!r} is no object with fields")
