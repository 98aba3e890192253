"""The outputs as monitor.json has them now."""

import logging
import time
from pathlib import Path
from typing import Optional, Tuple

from rankbeat_collector.errors import SettingsError
from rankbeat_collector.files import keys, settings
from rankbeat_collector.files.destination import Place
from rankbeat_collector.files.writing import Keys, Writing
from rankbeat_collector.sidecar.options import Settings

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 15.0
LAST_POST_SECONDS = 3.0
_OF_KEYS = frozenset(("key_missing", "key_invalid"))
"""Without its key nothing is written any longer: what was read before may say to write in clear."""


class Configured:
    """The outputs as monitor.json has them now; made anew when it changes."""

    def __init__(self, given: Settings) -> None:
        self._given = given
        self._mark: Optional[Tuple[int, int, int]] = (0, 0, 0)
        self.is_valid = False
        """Whether the file as it is now is followed."""
        self.records_lost = 0
        """By the reader of the rings, as of the last poll."""
        self.entries_lost = 0
        """Of side files: overwritten before they were read, or without room, as of the last poll."""
        self._retry_at = 0.0
        """When settings that cannot be followed are tried again: a key may have been mounted since."""
        self._said = ""
        self._text = ""
        """What is followed."""
        self.trouble = ""
        """Why the file as it is now cannot be followed, one of rankbeat_contract.outputs.TROUBLES."""
        self.writing: Optional[Writing] = None
        """None until settings can be followed."""

    def refresh(self) -> None:
        """Read monitor.json if it changed since; what is wrong with it is logged, and what was read before stays."""
        mark, now = self._changed(), time.monotonic()
        if mark == self._mark and (self.is_valid or now < self._retry_at):
            return
        self._mark, self._retry_at = mark, now + _RETRY_SECONDS
        try:
            text = self._given.text if not self._given.config else _text_of(self._given.config)
            made = self._made(text)
        except SettingsError as error:
            if error.trouble in _OF_KEYS:
                self.close()
                self.writing = None
            if str(error) != self._said:
                what = "nothing is written" if self.writing is None else "what was read before stays"
                _log.error("outputs cannot be followed %s; training goes on, %s", error, what)
            self.is_valid, self._said, self.trouble = False, str(error), error.trouble
            return
        before, self.writing = self.writing, made
        self.is_valid, self._said, self.trouble = True, "", ""
        fields, self._text = settings.changed(self._text, text), text
        if before is not None:
            before.close(now, LAST_POST_SECONDS)
            if fields:
                audited = made if made.asked.audit else before
                audited.note("changed", Path(self._given.config), fields=fields)

    def _changed(self) -> Optional[Tuple[int, int, int]]:
        if not self._given.config:
            return None
        try:
            status = Path(self._given.config).stat()
        except OSError:
            return None if self.writing is None else self._mark  # one that vanishes changes nothing
        return (status.st_dev, status.st_ino, status.st_mtime_ns)

    def _made(self, text: str) -> Writing:
        given = self._given
        asked = settings.outputs(text)
        place = Place(given.out, asked.directory, asked.experiment, given.node, given.pod)
        mounted = Keys(
            keys.key_from(Path(given.encryption_key)) if asked.encrypted else None,
            keys.key_from(Path(given.masking_key)) if asked.masked else None,
        )
        made = Writing(asked, place, mounted)
        shown = " ".join(str(path) for path in made.status()["paths"])
        _log.info("outputs folder=%s ranks=%s paths=%s", place.folder, "all" if asked.all_ranks else "one", shown)
        return made

    def close(self) -> None:
        """Write everything and end."""
        if self.writing is not None:
            self.writing.close(time.monotonic(), LAST_POST_SECONDS)


def _text_of(path: str) -> str:
    """Empty where there is no file: a pod may start before its monitor's ConfigMap is there.

    Raises: SettingsError.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise SettingsError(path, f"cannot be read: {error}") from error
