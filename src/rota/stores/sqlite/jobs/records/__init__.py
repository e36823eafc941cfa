"""Rows as they are: saved from a damaged file, or taken from one store to another."""
