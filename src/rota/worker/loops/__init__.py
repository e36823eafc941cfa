"""The loops of a worker: each waits for something, and does it."""
