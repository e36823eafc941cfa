"""What can go wrong between Rota and what remembers for it."""

import re
from collections.abc import Sequence

from rota.errors.groups import ConflictError, InvalidInputError, RefusedError, StoreError

_PASSWORD = re.compile(r"(://[^/@:]*:)[^/]*@")


class StaleVersionError(ConflictError):
    """A document moved on between reading and writing; nothing was written."""

    def __init__(self, collection: str, key: str, expected: int | None) -> None:
        super().__init__(
            f'Document "{key}" in "{collection}" is no longer at version {expected}',
            {"collection": collection, "key": key, "expected": expected},
        )
        self.collection = collection
        self.key = key
        self.expected = expected


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or refuses to work, for now."""


class StoreClosedError(StoreError):
    """The store was closed; open it again."""

    def __init__(self) -> None:
        super().__init__("The store is closed")


class UnsupportedConnectionError(InvalidInputError):
    """The caller's own connection is none that this store can write through."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The store cannot take part in this transaction: {reason}",
            {"field": "connection", "reason": reason},
        )


class SchemaOutdatedError(StoreError):
    """The store's schema and this program do not fit together."""


class StoreDamagedError(StoreError):
    """The store's file is damaged; nothing was changed in it."""


class CopyRefusedError(RefusedError):
    """Nothing was copied: the one store is in use, or the other is not empty."""


class CopyUnfinishedError(StoreError):
    """The store is half of a copy: until that is completed, nobody may work with it."""

    def __init__(self, source: str) -> None:
        super().__init__(
            f"A copy from {source} into this store was begun and is not finished: repeat the "
            "copy, which goes on where it was, or empty the store",
            {"source": source},
        )
        self.source = source


class CopyDiffersError(StoreError):
    """What was copied is not what the source holds; ``differences`` names the first of them."""

    def __init__(self, differences: Sequence[str]) -> None:
        super().__init__(
            f"The copy is not equal to the source: {'; '.join(differences)}. If other programs "
            "wrote to one of them meanwhile, stop them, empty the target and copy again",
            {"differences": list(differences)},
        )
        self.differences = tuple(differences)


class InvalidStoreUrlError(InvalidInputError):
    """The address names no store that Rota can open."""

    def __init__(self, url: str, reason: str) -> None:
        shown = hide_password(url)
        super().__init__(
            f'Invalid store address "{shown}": {reason}', {"url": shown, "reason": reason}
        )
        self.url = shown
        self.reason = reason


def hide_password(url: str) -> str:
    """The address without its secret, fit for a message or a log."""
    return _PASSWORD.sub(r"\1***@", url)
