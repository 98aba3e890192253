"""From bytes and raw numbers to values and verdicts: pure, no clock, no socket."""
