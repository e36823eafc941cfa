"""Commands that run: the service and its parts, an example to look at, and a live view."""
