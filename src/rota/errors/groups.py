"""The root of all errors and its groups, by who must act."""

from collections.abc import Mapping
from typing import Any, ClassVar


class RotaError(Exception):
    """Anything Rota refuses or fails to do.

    ``message`` is for people. ``details`` is for programs: its keys are part of the contract and
    spelled as the specification that names the error spells them.
    """

    group: ClassVar[str] = "error"

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})


class InvalidInputError(RotaError):
    """The caller must change the request; nothing has happened."""

    group = "invalid_input"


class NotFoundError(RotaError):
    """Nothing has that name."""

    group = "not_found"


class ConflictError(RotaError):
    """The world moved on; read again."""

    group = "conflict"


class RefusedError(RotaError):
    """A limit or a gate said no."""

    group = "refused"


class StoreError(RotaError):
    """The store is at fault."""

    group = "store"
