"""What operators' verbs work on."""

from rota.rail.surroundings import RailStore

ControlStore = RailStore
"""A store of documents and jobs, as every opened store is."""
