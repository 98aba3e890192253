"""Values: what a report says, what a verdict says. Nothing here knows the time."""
