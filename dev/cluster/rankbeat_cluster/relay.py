"""A TCP relay from 127.0.0.1:PORT of the host to an address inside a node's network namespace.

    python -m rankbeat_cluster.relay PORT HOLDER_PID ADDRESS:PORT

A socket stays in the namespace in which it was made: the relay listens first, then enters the node's and dials there.
It ends with the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000
CHUNK_BYTES = 1 << 18


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until the end, then pass on the end.

    Raises: OSError when either side is reset.
    """
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def relay(target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection: closed when nobody answers at the target, and on both sides as soon as one is reset."""
    with contextlib.suppress(OSError), contextlib.closing(writer):
        far_reader, far_writer = await asyncio.open_connection(*target)
        with contextlib.closing(far_writer):
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


async def serve(listener: socket.socket, target: tuple[str, int], holder: int) -> None:
    """Relay until the holder ends."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(holder, ended.set)
    async with await asyncio.start_server(lambda reader, writer: relay(target, reader, writer), sock=listener):
        await ended.wait()


def main(port: str, holder_pid: str, target: str) -> None:
    """Listen here, enter there, relay."""
    holder = os.pidfd_open(int(holder_pid))
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    with open(f"/proc/{holder_pid}/ns/net", "rb") as namespace:  # noqa: PTH123 - a descriptor, not its content
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:  # os.setns came with Python 3.12
            raise OSError(ctypes.get_errno(), "setns into the node's network namespace")
    host, _, target_port = target.rpartition(":")
    asyncio.run(serve(listener, (host, int(target_port)), holder))


if __name__ == "__main__":
    main(*sys.argv[1:])
