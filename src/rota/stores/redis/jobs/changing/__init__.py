"""How jobs come, end, change and go."""
