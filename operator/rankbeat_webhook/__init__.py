"""The admission webhook: a pod comes in, a patched pod goes out. It reads, it never writes and never denies."""
