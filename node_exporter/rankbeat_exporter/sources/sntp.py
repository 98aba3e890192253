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
    """How a round asks one server: samples, seconds between them, wait for one answer, and for all with the DNS."""

    samples: int = 4
    spacing_seconds: float = 0.25
    timeout_seconds: float = 1.0
    total_seconds: float = 6.0


class SntpServer:
    """One configured server: host, host:port or [v6]:port."""

    def __init__(self, server: str, pace: Pace) -> None:
        self.server = server
        self._host, self._port = host_port(server)
        self._pace = pace
        self._resolver = Resolver()

    def best_sample(self) -> Sample:
        """The sample with the smallest delay of a round.

        Raises: InvalidPacket or CannotMeasure with the last fault where no sample is believable, or at a kiss of death.
        """
        deadline = time.monotonic() + self._pace.total_seconds
        begin_wall, begin_monotonic = _clocks()
        addresses = self._resolver.addresses(self._host, self._port, self._pace.total_seconds)
        fault: InvalidPacket | CannotMeasure = CannotMeasure(UNRESOLVED, "no address")
        for address in addresses:
            found, last = self._samples(address, deadline)
            if last is not None and last.reason.startswith("Kiss"):
                raise last
            if found:
                wall, monotonic = _clocks()
                check_step(wall - begin_wall, monotonic - begin_monotonic)
                return min(found, key=lambda sample: sample.delay_seconds)
            fault = last or fault
        raise fault

    def _samples(self, address: Address, deadline: float) -> tuple[list[Sample], InvalidPacket | CannotMeasure | None]:
        """Samples of one address; silence or a kiss of death ends the asking: the next address gets its turn."""
        found: list[Sample] = []
        fault: InvalidPacket | CannotMeasure | None = None
        for number in range(self._pace.samples):
            if number:
                time.sleep(self._pace.spacing_seconds)
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


def host_port(server: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[v6]:port` or a bare IPv6 address; port 123 where none is given.

    Raises: ValueError where server is none of these.
    """
    host, colon, port = server.rpartition(":")
    if server.startswith("["):
        host, _, port = server[1:].partition("]")
        port = port.removeprefix(":")
    elif not colon or ":" in host:
        host, port = server, ""
    number = int(port) if port.isascii() and port.isdigit() else NTP_PORT if not port else 0
    if not host or not 0 < number < 65536:
        raise ValueError(f"{server!r} is no NTP server, write host, host:port or [address]:port")
    return host, number
