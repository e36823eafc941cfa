"""Environments, databases and processes: what a contest needs before anything is measured."""
