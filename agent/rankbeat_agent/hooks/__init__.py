"""Where the agent touches MindSpore, and what it notes there."""
