"""Rota: one scheduling rail for Python platforms."""

__version__ = "0.1.0"
