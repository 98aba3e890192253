"""The listener's certificate, taken up anew when its files change."""

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """PEM files of the certificate chain and its key."""

    certificate: Path
    key: Path

    def version(self) -> tuple[int, ...]:
        """Changes when either file does; a mounted Secret is replaced by a new link, so the inode counts."""
        stats = (self.certificate.stat(), self.key.stat())
        return tuple(number for stat in stats for number in (stat.st_ino, stat.st_mtime_ns, stat.st_size))


class Certificate:
    """An SSLContext whose certificate follows its files. New handshakes see the new one, the listener stays."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._version = files.version()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(files.certificate, files.key)

    def refresh(self) -> bool:
        """Takes up changed files; true if it did. Files that do not fit each other yet are tried again."""
        try:
            version = self._files.version()
            if version == self._version:
                return False
            self._try(version)
        except (OSError, ssl.SSLError) as error:
            log.warning("event=certificate_not_loaded file=%s error=%r", self._files.certificate, error)
            return False
        log.info("event=certificate_loaded file=%s", self._files.certificate)
        return True

    def _try(self, version: tuple[int, ...]) -> None:
        # A throw-away context first: a chain that is half written must not reach the one in use.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._files.certificate, self._files.key)
        self.context.load_cert_chain(self._files.certificate, self._files.key)
        self._version = version
