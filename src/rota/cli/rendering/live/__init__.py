"""What changes while one looks: boards and lines."""
