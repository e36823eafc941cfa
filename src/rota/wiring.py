"""From an address to a store. The only module that names a backend."""

from rota.errors import InvalidStoreUrlError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import OpenStore

_NOT_YET = ("mongodb", "postgresql", "redis")


async def open_store(url: str) -> OpenStore:
    """Open the store at ``url``, made ready if it is new: ``memory://`` or ``sqlite:///rota.db``.

    Close it when done, or say ``async with await open_store(url) as store``. Raises
    InvalidStoreUrlError when the address names no store, before anything is touched.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidStoreUrlError(url, "it does not start with a scheme, such as sqlite:///")
    if scheme == "memory":
        return _open_memory(url, rest)
    if scheme in _NOT_YET:
        raise InvalidStoreUrlError(url, f"{scheme} is not available in this version")
    raise InvalidStoreUrlError(url, "known schemes are memory and sqlite")


def _open_memory(url: str, rest: str) -> OpenStore:
    if rest:
        raise InvalidStoreUrlError(url, "a store in memory has no name: write memory://")
    return MemoryStore()
