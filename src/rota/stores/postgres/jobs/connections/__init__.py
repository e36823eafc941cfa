"""Connections beside those of the pool: the one that listens, a keeper's, the caller's own."""
