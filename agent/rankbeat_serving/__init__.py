"""How the programs on nodes serve /metrics: HTTP or TLS, to whom their files say."""
