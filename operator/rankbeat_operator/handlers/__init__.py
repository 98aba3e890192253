"""The shell: events become keys in a queue, a key becomes observe -> plan -> apply -> status."""
