"""Verdicts on a job: pure functions of the job as it stands, its limits and what was open before."""
