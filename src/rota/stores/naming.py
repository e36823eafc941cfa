"""What a collection and a key may be called: the same in every store, so that any can be chosen."""

from collections.abc import Iterable, Iterator

from rota.errors import InvalidInputError
from rota.stores.protocol import DocumentWrite

LONGEST_NAME = 255


def check_name(field: str, name: str) -> None:
    """Refuse a name that not every store could keep; ``field`` says which one it was."""
    # One comparison and one C call let nearly every name through: this runs for each write.
    if 0 < len(name) <= LONGEST_NAME and name.isprintable():
        return
    reason = _what_is_wrong(name)
    if reason is not None:
        raise InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})


def checked(writes: Iterable[DocumentWrite]) -> Iterator[DocumentWrite]:
    """The same writes, refused at the first whose names no store could keep."""
    for write in writes:
        check_name("collection", write.collection)
        check_name("key", write.key)
        yield write


def _what_is_wrong(name: str) -> str | None:
    if not name:
        return "must not be empty"
    if len(name) > LONGEST_NAME:
        return f"is {len(name)} characters long, {LONGEST_NAME} are the most"
    if "\0" in name:
        return "must not hold the character NUL"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "holds half of a surrogate pair, which is not text"
    return None
