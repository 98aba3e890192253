"""The shell: TLS, tokens, the watch of monitors, metrics, and the loop that evaluates."""
