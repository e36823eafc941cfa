"""Rows as they are, taken from one store to another."""
