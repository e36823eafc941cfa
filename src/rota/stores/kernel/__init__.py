"""The rules of a job store, written once: plans that a backend runs as units of work."""
