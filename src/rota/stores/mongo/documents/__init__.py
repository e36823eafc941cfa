"""Versioned documents in a collection of MongoDB."""
