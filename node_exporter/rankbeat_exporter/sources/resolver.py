"""Addresses of a name, within a deadline."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.clock import UNRESOLVED


@dataclass(frozen=True, slots=True)
class Address:
    """Where to send a datagram."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int]

    def __str__(self) -> str:
        return f"{self.sockaddr[0]} {self.sockaddr[1]}"


@dataclass(slots=True)
class _Lookup:
    done: threading.Event = field(default_factory=threading.Event)
    addresses: tuple[Address, ...] = ()
    detail: str = ""


class Resolver:
    """getaddrinfo, which has no time-out, in a thread of its own: at most one is outstanding."""

    def __init__(self) -> None:
        self._outstanding: _Lookup | None = None

    def addresses(self, host: str, port: int, timeout_seconds: float) -> tuple[Address, ...]:
        """All addresses of host, in the resolver's order. port is a number: slim images lack /etc/services (ntplib 32).

        Raises: CannotMeasure(Unresolved).
        """
        lookup = self._outstanding
        if lookup is None:
            lookup = self._outstanding = _Lookup()
            threading.Thread(target=_resolve, args=(lookup, host, port), daemon=True, name="resolver").start()
        if not lookup.done.wait(timeout_seconds):
            raise CannotMeasure(UNRESOLVED, f"{host!r} not resolved in {timeout_seconds:.1f} s")
        self._outstanding = None
        if not lookup.addresses:
            raise CannotMeasure(UNRESOLVED, lookup.detail)
        return lookup.addresses


def _resolve(lookup: _Lookup, host: str, port: int) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        lookup.addresses = tuple(Address(family, sockaddr) for family, _, _, _, sockaddr in found)  # type: ignore[arg-type]
    except (OSError, UnicodeError) as error:
        lookup.detail = f"{host!r}: {error}"
    finally:
        lookup.done.set()
