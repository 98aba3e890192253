"""From a pod and what is known about it to JSON Patch operations. Pure."""
