"""Valid names of collections and keys: the same in every store, so that any can be chosen."""

from rota.errors import InvalidInputError

LONGEST_NAME = 255


def check_name(field: str, name: str) -> None:
    """Refuse a name that not every store can keep; the error names ``field``."""
    # One comparison and one C call accept nearly every name: this runs for each write.
    if 0 < len(name) <= LONGEST_NAME and name.isprintable():
        return
    reason = _find_fault(name)
    if reason is not None:
        raise InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})


def _find_fault(name: str) -> str | None:
    if not name:
        return "must not be empty"
    if len(name) > LONGEST_NAME:
        return f"is {len(name)} characters long, {LONGEST_NAME} are the most"
    if "\0" in name:
        return "must not hold the character NUL"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "holds half of a surrogate pair, which is not text"
    return None
