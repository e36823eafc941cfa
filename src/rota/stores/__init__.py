"""Where things are remembered. A store only remembers; what to write is decided elsewhere."""
