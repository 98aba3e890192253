"""What others ask: metrics and health over HTTP, raw snapshots over a unix socket."""
