"""Operators' verbs and views over a store, for one tenant."""
