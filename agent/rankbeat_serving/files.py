"""Certificates and tokens of a listener, read anew when their files change: who rotates them restarts nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_serving.access import AccessError
from rankbeat_serving.stamp import file_stamp

if TYPE_CHECKING:
    import ssl

    from rankbeat_serving.access import Access
    from rankbeat_serving.stamp import Stamp

_log = logging.getLogger(__name__)


class AccessFiles:
    """What the files hold now. Files that cannot be read leave in force what was read before."""

    def __init__(self, access: Access) -> None:
        """Raises: AccessError."""
        self._access = access
        self._stamps = self._found()
        self._context, self._token = _context(access), _token(access)

    @property
    def asks_for_client(self) -> bool:
        return bool(self._access.client_ca)

    def context(self) -> ssl.SSLContext | None:
        """For a connection that comes now; None where the listener speaks plain HTTP."""
        self._refresh()
        return self._context

    def is_allowed(self, authorization: str) -> bool:
        """Whether a request's Authorization header bears the token, where one is asked for."""
        self._refresh()
        if self._token is None:
            return True
        import hmac  # noqa: PLC0415 - half a MiB, where a token is asked for

        scheme, _, given = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token)

    def _found(self) -> tuple[Stamp | None, ...]:
        return tuple(file_stamp(Path(name)) for name in self._access if name)

    def _refresh(self) -> None:
        stamps = self._found()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._context, self._token = _context(self._access), _token(self._access)
            _log.info("certificates and token read anew")
        except AccessError as error:
            # Certificate and key are replaced one after the other: the next change is tried again.
            _log.warning("certificates and token stay as they were reason=%r", str(error))


def _context(access: Access) -> ssl.SSLContext | None:
    if not access.certificate:
        return None
    import ssl  # noqa: PLC0415 - 4 MiB, where TLS is asked for only

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(access.certificate, access.key)
    except (OSError, ValueError) as error:
        raise AccessError(("certificate", "key"), f"cannot be used: {error}") from error
    if access.client_ca:
        try:
            context.load_verify_locations(access.client_ca)
        except (OSError, ValueError) as error:
            raise AccessError(("client_ca",), f"cannot be used: {error}") from error
        # Optional here: the kubelet's probe of /healthz has no certificate. Pages that need one check for it.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _token(access: Access) -> bytes | None:
    if not access.token_file:
        return None
    try:
        token = Path(access.token_file).read_bytes().strip()
    except OSError as error:
        raise AccessError(("token_file",), f"cannot be read: {error.strerror}") from error
    if not token:
        raise AccessError(("token_file",), "is empty: write the token there")
    return token
