"""What is to be done, given what was seen: pure functions, whole objects."""
