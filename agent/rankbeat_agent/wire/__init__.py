"""How what was noted leaves the process: a ring file in shared memory."""
