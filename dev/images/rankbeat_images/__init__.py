"""Container images of this repository, written without a registry, a builder or a daemon."""
