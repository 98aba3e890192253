"""What is collected, how often, and how it shows. A scrape reads what was found last and waits for nothing."""
