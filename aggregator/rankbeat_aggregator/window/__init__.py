"""Folding of reports into the state of nodes and jobs. Pure: the clock is an argument.

All times are seconds on the aggregator's monotonic clock. A report's ages become such times at the moment it was sent,
as near as we know: receipt less transport. The fold takes reports in any order and any number of times.
"""
