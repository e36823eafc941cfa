"""Everything in dictionaries: gone when the process ends, and the executable specification."""

from rota.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
