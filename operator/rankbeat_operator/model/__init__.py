"""What the operator knows, as values. Parsed once, at the edge."""
