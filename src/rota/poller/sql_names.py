"""The names in a user's table: quoted, and checked against what the table has. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.errors import InvalidInputError

LONGEST_NAME = 63
"""In bytes. PostgreSQL cuts longer names off without an error."""

_DEFAULTS = {
    "id_column": "id",
    "sleep_until_column": "sleep_until",
    "interval_column": "interval",
    "repeat_until_column": "repeat_until",
    "auto_remove_column": "auto_remove",
}
_REQUIRED = ("id_column", "sleep_until_column")
_UNZONED, _ZONED = 1114, 1184
_WANTED_TYPES = {
    "sleep_until_column": "timestamptz, or timestamp in UTC",
    "interval_column": "text",
    "repeat_until_column": "timestamptz, or timestamp in UTC",
    "auto_remove_column": "boolean",
}
_CATEGORIES = {"interval_column": "S", "auto_remove_column": "B"}
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_PLACEHOLDER = re.compile(r"\$(\d+)")


class TableColumns(NamedTuple):
    """The columns of a table that a poller uses; None for those that it does not have."""

    id: str
    sleep_until: str
    interval: str | None
    repeat_until: str | None
    auto_remove: str | None
    is_zoned: bool
    """Whether ``sleep_until`` is a timestamptz. Otherwise it is in UTC."""

    def as_stored(self, instant: datetime | None) -> datetime | None:
        return instant if instant is None or self.is_zoned else instant.replace(tzinfo=None)

    def require_auto_remove(self) -> str:
        if self.auto_remove is None:
            raise refusal("auto_remove_column", None, "is not set: name the column to write")
        return self.auto_remove


def quote(name: str) -> str:
    """The name as an identifier in SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def quote_table(table: object) -> str:
    """``name`` or ``schema.name``, quoted."""
    parts: list[object] = [*table.split(".")] if isinstance(table, str) else [table]
    if len(parts) > 2:
        raise refusal("table", table, "must be a name, or schema.name")
    return ".".join(quote(_read_name("table", part)) for part in parts)


def name_index(table: str, column: str) -> str:
    """A name for the index, short enough for the server."""
    whole = f"rota_{table.rpartition('.')[2]}_{column}"
    return whole.encode()[:LONGEST_NAME].decode(errors="ignore")


def read_columns(given: Mapping[str, Any]) -> dict[str, str | None]:
    """The names that were given, checked."""
    for option, name in given.items():
        if option not in _DEFAULTS:
            raise TypeError(f"SqlTableStore() has no option {option!r}")
        if name is not None or option in _REQUIRED:
            _read_name(option, name)
    return dict(given)


def read_condition(condition: object, parameters: object) -> str:
    """The condition in parentheses; TRUE without one. Each ``$n`` must have its value."""
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        raise refusal("condition", condition, 'must be SQL, such as "status = $1"')
    if not isinstance(parameters, Sequence) or isinstance(parameters, str | bytes):
        raise refusal("parameters", parameters, "must be a list of the condition's values")
    numbers = {int(it) for it in _PLACEHOLDER.findall(_LITERAL.sub("", condition or ""))}
    if numbers != set(range(1, len(parameters) + 1)):
        expected = max(numbers, default=0)
        reason = f"must have one value for each of $1 to ${expected}, got {len(parameters)}"
        raise refusal("parameters", parameters, reason if numbers else "need a condition with $1")
    # The line break ends a comment in the text.
    return "TRUE" if condition is None else f"({condition}\n)"


def choose_columns(
    table: str, given: Mapping[str, str | None], rows: Sequence[Mapping[str, Any]]
) -> TableColumns:
    """The columns to use. ``rows`` describe those that the table has.

    A column that was named must exist. Without a name, a default that does not exist is not used.
    """
    found = {row["name"]: row for row in rows}
    if not found:
        reason = "does not exist in this database: create it, or name its schema, as in shop.orders"
        raise refusal("table", table, reason)
    chosen = {option: _choose(option, given, found) for option in _DEFAULTS}
    named = [name for name in chosen.values() if name is not None]
    for option, name in chosen.items():
        if named.count(name or "") > 1:
            raise refusal(option, name, "is used for another option too: name another column")
        if name is not None:
            _check_type(option, name, found[name])
    sleep_until = chosen["sleep_until_column"] or ""  # _choose requires it, and the id
    return TableColumns(
        id=chosen["id_column"] or "",
        sleep_until=sleep_until,
        interval=chosen["interval_column"],
        repeat_until=chosen["repeat_until_column"],
        auto_remove=chosen["auto_remove_column"],
        is_zoned=found[sleep_until]["base"] == _ZONED,
    )


def _choose(option: str, given: Mapping[str, str | None], found: Mapping[str, Any]) -> str | None:
    name = given.get(option, _DEFAULTS[option])
    if name is None or name in found:
        return name
    if option not in given and option not in _REQUIRED:
        return None
    remedy = f"is not a column of the table: name one of {', '.join(found)}"
    raise refusal(option, name, remedy if option in _REQUIRED else f"{remedy}, or None")


def _check_type(option: str, name: str, column: Mapping[str, Any]) -> None:
    if option == "id_column":
        if not column["is_unique"]:
            reason = "must be unique: name the primary key, or add a unique index on it alone"
            raise refusal(option, name, reason)
        return
    category = _CATEGORIES.get(option)
    fits = (
        column["base"] in {_UNZONED, _ZONED} if category is None else column["category"] == category
    )
    if not fits:
        reason = f"must be of the type {_WANTED_TYPES[option]}, and is {column['type']}"
        raise refusal(option, name, f"{reason}: name another column, or change its type")
    if option == "sleep_until_column" and column["is_required"]:
        reason = "must allow NULL, which means done"
        raise refusal(option, name, f"{reason}: ALTER COLUMN {quote(name)} DROP NOT NULL")


def _read_name(option: str, name: object) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise refusal(option, name, f"must be the name of a {option.rpartition('_')[2]}")
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise refusal(option, name, f"must have at most {LONGEST_NAME} bytes")
    return name


def refusal(field: str, value: object, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{field} {value!r:.80} {reason}", {"field": field, "value": value, "reason": reason}
    )
