"""Reads the rings of one node's training pods, serves them to Prometheus and reports them to the aggregator."""
