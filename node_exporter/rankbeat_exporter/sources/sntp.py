"""SNTP over a socket of our own: ntplib's client hides its origin, takes one address and waits anew at each stray."""

from __future__ import annotations

import math
import secrets
import socket
import time
from typing import NamedTuple

from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.model.clock import (
    CLOCK_STEPPED,
    NETWORK_ERROR,
    RATE_LIMITED,
    REFUSED,
    STEP_TOLERANCE_SECONDS,
    TIMEOUT,
    UNRESOLVED,
    Sample,
)
from rankbeat_exporter.parsing import ntp
from rankbeat_exporter.sources.resolver import Address, Resolver

NTP_PORT = 123


class Pace(NamedTuple):
    """How a round asks one server: samples, seconds between them, wait for one answer, and for all with the DNS.

    interval_seconds: from round to round. The defaults stay within what servers allow one client before they say RATE:
    2 s between questions and 8 s on average (ntpd's `discard`, chrony's `ratelimit interval 3`).
    """

    samples: int = 4
    spacing_seconds: float = 2.0
    timeout_seconds: float = 1.0
    total_seconds: float = 12.0
    interval_seconds: float = 32.0


def pace(interval_seconds: float) -> Pace:
    """The pace of rounds that far apart: shorter rounds are asked for by a platform that knows its servers."""
    spacing = min(Pace().spacing_seconds, interval_seconds / 8)
    return Pace(spacing_seconds=spacing, total_seconds=6 + 3 * spacing, interval_seconds=interval_seconds)


class _Quiet(NamedTuple):
    """An address that asked to be left alone: with what, how often in a row, until when by the monotonic clock."""

    kiss: InvalidPacket
    kisses: int
    until_monotonic: float


class SntpServer:
    """One configured server: host, host:port or [v6]:port. Remembers which of its addresses want to be left alone."""

    def __init__(self, server: str, pace: Pace, resolver: Resolver | None = None) -> None:
        self.server = server
        self._host, self._port = host_port(server)
        self._pace = pace
        self._resolver = resolver or Resolver()
        self._quiet: dict[str, _Quiet] = {}

    def best_sample(self) -> Sample:
        """The sample with the smallest delay of a round, of the first address that gives one.

        Raises: InvalidPacket or CannotMeasure with the last fault where no sample is believable.
        """
        deadline = time.monotonic() + self._pace.total_seconds
        begin_wall, begin_monotonic = _clocks()
        addresses = self._resolver.addresses(self._host, self._port, self._pace.total_seconds / 2)
        self._quiet = {name: quiet for name, quiet in self._quiet.items() if name in set(map(str, addresses))}
        fault: InvalidPacket | CannotMeasure = CannotMeasure(UNRESOLVED, "no address")
        for address in addresses:
            quiet = self._quiet.get(str(address))
            if quiet is not None and time.monotonic() < quiet.until_monotonic:
                fault = quiet.kiss
                continue
            found, last = self._samples(address, deadline)
            if found:
                wall, monotonic = _clocks()
                check_step(wall - begin_wall, monotonic - begin_monotonic)
                return min(found, key=lambda sample: sample.delay_seconds)
            fault = last or fault
        self._resolver.forget()
        raise fault

    def _remember(self, address: Address, fault: InvalidPacket | CannotMeasure | None) -> None:
        """Kisses in a row are counted; anything else from the address ends the row."""
        earlier = self._quiet.pop(str(address), None)
        if isinstance(fault, InvalidPacket) and fault.reason.startswith("Kiss"):
            kisses = 1 + (earlier.kisses if earlier else 0)
            pause = ntp.back_off_seconds(fault.reason, kisses, self._pace.interval_seconds)
            self._quiet[str(address)] = _Quiet(fault, kisses, time.monotonic() + pause)

    def _samples(self, address: Address, deadline: float) -> tuple[list[Sample], InvalidPacket | CannotMeasure | None]:
        """Samples of one address; silence or a kiss of death ends the asking: the next address gets its turn.

        What came before RATE counts; a server that denies us is not quoted.
        """
        found, fault = self._asked(address, deadline)
        self._remember(address, fault)
        is_denied = fault is not None and fault.reason.startswith("Kiss") and fault.reason != RATE_LIMITED
        return [] if is_denied else found, fault

    def _asked(self, address: Address, deadline: float) -> tuple[list[Sample], InvalidPacket | CannotMeasure | None]:
        found: list[Sample] = []
        fault: InvalidPacket | CannotMeasure | None = None
        for number in range(self._pace.samples):
            if number:
                time.sleep(max(0.0, min(self._pace.spacing_seconds, deadline - time.monotonic())))
            left = deadline - time.monotonic()
            if left <= 0:
                return found, fault or CannotMeasure(TIMEOUT, f"no time left for {address}")
            try:
                found.append(exchange(address, min(self._pace.timeout_seconds, left)))
            except CannotMeasure as error:
                fault = error
                if error.reason != CLOCK_STEPPED:
                    break
            except InvalidPacket as error:
                fault = error
                if error.reason.startswith("Kiss"):
                    break
        return found, fault


def exchange(address: Address, timeout_seconds: float) -> Sample:
    """One question to one address. The socket is connected: the kernel drops what comes from anywhere else.

    Raises: CannotMeasure(Timeout, Refused, NetworkError, ClockStepped), InvalidPacket of the answer to our question.
    """
    cookie = secrets.token_bytes(8)
    deadline = time.monotonic() + timeout_seconds
    try:
        with socket.socket(address.family, socket.SOCK_DGRAM) as channel:
            channel.connect(address.sockaddr)
            packet = ntp.question(cookie)
            sent_wall, sent_monotonic = _clocks()
            channel.send(packet)
            return _answer(channel, deadline, ntp.Exchange(cookie, sent_wall, 0.0, str(address)), sent_monotonic)
    except ConnectionRefusedError as error:
        raise CannotMeasure(REFUSED, str(address)) from error
    except TimeoutError as error:
        raise CannotMeasure(TIMEOUT, str(address)) from error
    except OSError as error:
        raise CannotMeasure(NETWORK_ERROR, f"{address}: {error}") from error


def _answer(channel: socket.socket, deadline: float, asked: ntp.Exchange, sent_monotonic: float) -> Sample:
    """The first answer to our question; answers to others do not extend the wait, and are named if alone."""
    stray: InvalidPacket | None = None
    while True:
        left = deadline - time.monotonic()
        channel.settimeout(max(left, 1e-6))
        try:
            answer = channel.recv(1024)
        except TimeoutError:
            if stray is not None:
                raise stray from None
            raise
        wall, monotonic = _clocks()
        elapsed = monotonic - sent_monotonic
        try:
            sample = ntp.sample(answer, asked._replace(elapsed_seconds=elapsed))
        except InvalidPacket as error:
            if error.reason != ntp.ORIGIN_MISMATCH and len(answer) >= ntp.PACKET_BYTES:
                raise
            stray = error
            continue
        check_step(wall - asked.sent_unix, elapsed)
        return sample


def check_step(wall_seconds: float, monotonic_seconds: float) -> None:
    """Refuses an exchange during which the wall clock was set.

    Raises: CannotMeasure(ClockStepped).
    """
    if abs(wall_seconds - monotonic_seconds) > STEP_TOLERANCE_SECONDS:
        raise CannotMeasure(CLOCK_STEPPED, f"by {wall_seconds - monotonic_seconds:+.3f} s during the query")


def _clocks() -> tuple[float, float]:
    """Wall and monotonic time of one moment: the closest of a few pairs, lest the thread be preempted between reads."""
    best = (0.0, 0.0, math.inf)
    for _ in range(3):
        before = time.monotonic()
        wall = time.time()
        after = time.monotonic()
        best = min(best, (wall, (before + after) / 2, after - before), key=lambda pair: pair[2])
        if best[2] < 1e-5:
            break
    return best[0], best[1]


def host_port(server: str, default_port: int = NTP_PORT) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[v6]:port` or a bare IPv6 address; port 123 where none is given.

    Raises: ValueError where server is none of these.
    """
    host, colon, port = server.rpartition(":")
    if server.startswith("["):
        host, _, port = server[1:].partition("]")
        port = port.removeprefix(":")
    elif not colon or ":" in host:
        host, port = server, ""
    number = int(port) if port.isascii() and port.isdigit() else default_port if not port else 0
    if not host or not 0 < number < 65536:
        raise ValueError(f"{server!r} is no server, write host, host:port or [address]:port")
    return host, number
