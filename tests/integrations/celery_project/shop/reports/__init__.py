"""A second application of the project."""
