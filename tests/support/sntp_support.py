"""Paces, faults and addresses for tests that ask servers for the time."""

from __future__ import annotations

import socket

from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.sources import sntp
from rankbeat_exporter.sources.resolver import Address

PATIENT = sntp.Pace(samples=4, spacing_seconds=0.005, timeout_seconds=3.0, total_seconds=10.0)
SHORT = sntp.Pace(samples=1, spacing_seconds=0.0, timeout_seconds=0.2, total_seconds=1.0)
"""For servers from which nothing good is to come."""


def reason(server, pace=PATIENT):
    """The fault of a round, or None where it gave a sample."""
    try:
        sntp.SntpServer(server, pace).best_sample()
    except (InvalidPacket, CannotMeasure) as error:
        return error.reason
    return None


def addresses(server, *hosts):
    return tuple(Address(socket.AF_INET, (host, server.port)) for host in hosts)
