"""What the agent does about errors of its own."""

from time import monotonic_ns

from rankbeat_agent.hooks import rank
from rankbeat_contract import ring

MAX_ERRORS = 10
"""Errors after which the agent turns itself off."""


def count(process: rank.Rank, hook: str, error: Exception) -> None:
    """Count an error, show the first with its place, turn the agent off after MAX_ERRORS."""
    process.errors += 1
    if process.errors == 1:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        rank.say(f"error in {hook}{place}: {error!r}")
    writer = process.writer
    if writer is None:
        return
    writer.agent_errors = process.errors
    if process.errors >= MAX_ERRORS:
        process.writer = None
        process.is_off = True
        writer.flags |= ring.AGENT_OFF
        rank.say(f"turned off after {MAX_ERRORS} errors, this rank is no longer seen")
    try:
        writer.publish(monotonic_ns())
    except Exception:  # noqa: BLE001 - the last door: nothing is left to count with
        process.writer = None
