"""Leasing while a transaction elsewhere keeps the server from clearing away what is gone."""
