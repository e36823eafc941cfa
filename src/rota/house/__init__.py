"""One process that runs the service, or parts of it, and owns the signals.

Nothing is imported here: what only loads a user's module needs no server.
"""
