"""Values of the collector and what follows from them. Pure: time and identity come in as arguments."""
