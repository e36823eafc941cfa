"""A store in dictionaries: lost when the process ends, and the executable specification."""

from rota.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
