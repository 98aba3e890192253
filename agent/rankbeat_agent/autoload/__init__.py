"""How the agent gets into a process."""
