"""An NTP server of our own on each node: the host's kernel clock is disciplined by nobody, and must not be stepped.

`chronyd -x` leaves the clock alone and serves it at a local stratum, so that SNTP clients in pods find a fresh quorum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_cluster import programs

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_cluster.state import Node


def chronyd(node: Node, etc: Path) -> list[str]:
    """An NTP server at the node's address, port 123."""
    config = etc / "chrony.conf"
    config.write_text(
        f"local stratum 3\nallow 10.0.0.0/8\nbindaddress {node.address}\ncmdport 0\npidfile /run/chronyd.pid\n"
    )
    return [programs.installed("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)]
