"""Reports to the aggregator, in a thread of its own that never makes a poll wait."""
