"""Where the operator touches the world: API server, aggregator, files, keys."""
