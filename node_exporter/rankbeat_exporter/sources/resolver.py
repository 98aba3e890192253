"""Addresses of a name, within a deadline."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.clock import UNRESOLVED

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_SECONDS = 600.0
"""How long addresses that answer are not asked for again: a question a round from each node is a load for the DNS."""


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


def system_addresses(host: str, port: int) -> tuple[Address, ...]:
    """All addresses of host, each once, in the system's order.

    Raises: OSError, UnicodeError.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    return tuple(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))  # type: ignore[arg-type]


class Resolver:
    """getaddrinfo, which has no time-out, in a thread of its own: at most one is outstanding."""

    def __init__(
        self,
        lookup: Callable[[str, int], tuple[Address, ...]] = system_addresses,
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self._ask = lookup
        self._kept_seconds = kept_seconds
        self._outstanding: _Lookup | None = None
        self._known: tuple[Address, ...] = ()
        self._known_until_monotonic = 0.0

    def addresses(self, host: str, port: int, timeout_seconds: float) -> tuple[Address, ...]:
        """All addresses of host. port is a number: slim images lack /etc/services (ntplib 32).

        The last known ones serve for kept_seconds, and for as long as the name cannot be resolved anew.

        Raises: CannotMeasure(Unresolved).
        """
        if time.monotonic() < self._known_until_monotonic:
            return self._known
        try:
            self._known = self._resolved(host, port, timeout_seconds)
        except CannotMeasure:
            if not self._known:
                raise
            return self._known
        self._known_until_monotonic = time.monotonic() + self._kept_seconds
        return self._known

    def forget(self) -> None:
        """The next question goes to the DNS: nobody under the known addresses gave a sample."""
        self._known_until_monotonic = 0.0

    def _resolved(self, host: str, port: int, timeout_seconds: float) -> tuple[Address, ...]:
        lookup = self._outstanding
        if lookup is None:
            lookup = self._outstanding = _Lookup()
            asking = threading.Thread(target=self._resolve, args=(lookup, host, port), daemon=True, name="resolver")
            asking.start()
        if not lookup.done.wait(timeout_seconds):
            raise CannotMeasure(UNRESOLVED, f"{host!r} not resolved in {timeout_seconds:.1f} s")
        self._outstanding = None
        if not lookup.addresses:
            raise CannotMeasure(UNRESOLVED, lookup.detail or f"{host!r} has no address")
        return lookup.addresses

    def _resolve(self, lookup: _Lookup, host: str, port: int) -> None:
        try:
            lookup.addresses = self._ask(host, port)
        except (OSError, UnicodeError) as error:
            lookup.detail = f"{host!r}: {error}"
        finally:
            lookup.done.set()
