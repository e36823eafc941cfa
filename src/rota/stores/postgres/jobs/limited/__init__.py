"""Leasing where there are limits."""
