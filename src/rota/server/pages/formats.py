"""Times, durations, JSON and errors as text for people; JSON also as a tree that folds."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

import msgspec

from rota.auth.masking import mask_secrets, mask_text
from rota.errors import InvalidJobError, InvalidRequestError
from rota.escape import escape, escape_json
from rota.jobs import PAUSED_UNTIL
from rota.ops.queues import QueueLimit, QueueReport
from rota.triggers.zone import instants_of

LONGEST_SHOWN = 20_000
LONGEST_EXCERPT = 120
LONGEST_DETAIL = 120
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_STEPS = (
    (timedelta(days=1), "d", timedelta(hours=1), "h"),
    (timedelta(hours=1), "h", timedelta(minutes=1), "min"),
    (timedelta(minutes=1), "min", _SECOND, "s"),
)
_WHOLE_DAYS_FROM = timedelta(days=3)
_WHOLE_UNITS_FROM = 10
_HUMP = re.compile(r"(?<=[a-z])([A-Z])")
_FAR_FROM = timedelta(days=365 * 100)


def format_length(length: timedelta) -> str:
    """At most two units: "1 h 5 min", "40 s", "3 d"; milliseconds below a second."""
    if length < timedelta(0):
        return f"-{format_length(-length)}"
    if timedelta(0) < length < _MILLISECOND:
        return "<1 ms"
    if length < _SECOND:
        return f"{length // _MILLISECOND} ms"
    if length < timedelta(seconds=10):
        return f"{length / _SECOND:.1f} s".replace(".0 s", " s")
    for unit, name, smaller, smaller_name in _STEPS:
        if length >= unit:
            count, rest = length // unit, (length % unit) // smaller
            is_whole = rest == 0 or count >= _WHOLE_UNITS_FROM or length >= _WHOLE_DAYS_FROM
            return f"{count} {name}" if is_whole else f"{count} {name} {rest} {smaller_name}"
    return f"{length // _SECOND} s"


def format_ms(milliseconds: float) -> str:
    """As ``format_length``, with a fraction below 10 ms: many jobs take less than one."""
    if 0 < milliseconds < 10:
        return f"{milliseconds:.2g} ms"
    return format_length(milliseconds * _MILLISECOND)


def format_seconds(seconds: float) -> str:
    return format_length(timedelta(seconds=seconds))


def format_count(number: int) -> str:
    """With a narrow space between thousands."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_distance(instant: datetime, now: datetime) -> str:
    """The distance in whole seconds: "5 s ago", "in 2 h"; "when resumed" for a paused job."""
    if instant >= PAUSED_UNTIL:
        return "when resumed"
    distance = instant - now
    if abs(distance) < _SECOND:
        return "now"
    if abs(distance) > _FAR_FROM:
        return "never" if distance > timedelta(0) else "long ago"
    length = format_length(abs(distance) // _SECOND * _SECOND)
    return f"in {length}" if distance > timedelta(0) else f"{length} ago"


def format_instant(instant: datetime) -> str:
    """To the second in UTC: "2026-11-16 03:30:37 UTC"."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_local(instant: datetime, zone: tzinfo) -> str:
    """The wall time with weekday and zone: "Mon 2026-11-16 04:30 CET"."""
    local = instant.astimezone(zone)
    clock = "%H:%M:%S" if local.second else "%H:%M"
    return f"{WEEKDAYS[local.weekday()]} {local:%Y-%m-%d} {local.strftime(clock)} {local:%Z}"


def machine_instant(instant: datetime) -> str:
    """For the ``datetime`` attribute of an HTML ``time`` element."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Lines(str):
    """Text of several lines, escaped line by line."""

    __slots__ = ()


def read_wall(text: str, field: str, zone: tzinfo) -> datetime:
    """A time as browsers send it: the wall time in the zone."""
    try:
        wall = datetime.fromisoformat(text)
        if wall.tzinfo is not None:
            return wall.astimezone(UTC)
        (at,) = instants_of(wall, zone, gap="shift", fold="first")
    except (ValueError, OverflowError) as error:
        reason = f'must be a date and a time such as 2027-03-28T09:00, got "{text[:40]}"'
        raise InvalidRequestError(field, reason) from error
    return at


def read_number(text: str, most_digits: int = 8) -> int | None:
    """The whole number that a text is; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most_digits else None


def read_json(text: str, field: str) -> Any:
    """The JSON value that a person typed."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidJobError(field, f"must be JSON: {error}") from error


def write_json(value: object) -> str:
    """Indented JSON with every character visible."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return "\n".join(escape_json(line) for line in text.split("\n"))


def show_json(value: object) -> Lines:
    """Indented JSON, cut where it gets too long."""
    return Lines(_cut(write_json(value)))


def excerpt(payload: Any, masked_words: Collection[str]) -> str:
    """The beginning of a payload on one line, with secrets masked; nothing for an empty one."""
    if not payload and payload in (None, {}, []):
        return ""
    begun = _take_first(payload, iter(range(LONGEST_EXCERPT)))
    text = escape_json(msgspec.json.encode(mask_secrets(begun, masked_words)).decode())
    return text if len(text) <= LONGEST_EXCERPT else f"{text[:LONGEST_EXCERPT]}…"


def _take_first(value: Any, room: Iterator[int]) -> Any:
    """The first parts of the value, at most as many as the excerpt has characters.

    So a large payload is not masked and encoded whole.
    """
    if isinstance(value, dict):
        named = zip(room, value.items(), strict=False)
        return {name: _take_first(part, room) for _, (name, part) in named}
    if isinstance(value, list):
        return [_take_first(part, room) for _, part in zip(room, value, strict=False)]
    return value


def show_text(text: str) -> Lines:
    """The text with its line breaks; other invisible characters are escaped."""
    lines = mask_text(text).replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return Lines(_cut("\n".join(escape(line) for line in lines)))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:LONGEST_SHOWN]}\n[… {len(text) - LONGEST_SHOWN} characters more]"


def show_details(details: Mapping[str, object]) -> str:
    shown = (f"{in_words(name)}: {_show_detail(value)}" for name, value in details.items())
    return ", ".join(each[:LONGEST_DETAIL] for each in shown)


def _show_detail(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(str(_show_detail(each)) for each in value) or "none"
    if isinstance(value, Mapping):
        return " ".join(f"{in_words(name)} {_show_detail(each)}" for name, each in value.items())
    return "none" if value is None else value


def describe_end(queue: QueueReport) -> str:
    """How long its due jobs take at the current throughput; nothing if that is not known."""
    if queue.empty_in_seconds is None or not queue.due_count or queue.pauses:
        return ""
    return format_seconds(queue.empty_in_seconds)


def describe_limits(limits: Iterable[QueueLimit]) -> list[str]:
    texts = []
    for limit in limits:
        whose = "" if limit.whose == "own" else ", all tenants"
        if limit.running is not None:
            texts.append(f"at most {limit.running} running{whose}")
        if limit.rate_count is not None and limit.rate_seconds is not None:
            texts.append(f"{limit.rate_count} per {format_seconds(limit.rate_seconds)}{whose}")
        if limit.ageing_seconds is not None:
            texts.append(f"priority +1 every {format_seconds(limit.ageing_seconds)}{whose}")
    return texts


def in_words(name: str) -> str:
    """``endsSeries`` and ``ends_series`` as "ends series"."""
    return _HUMP.sub(r" \1", name).replace("_", " ").replace(".", " ").lower()


MOST_BRANCHES = 400
"""The parts of a larger value are left out from here on."""

LONGEST_LEAF = 400

_MOST_OPEN = 40


class Branch(NamedTuple):
    """A value with its name: a leaf with its ``text``, or an object or list with its ``parts``.

    ``path`` is unique in the tree. ``left_out`` counts the parts that are not shown.
    """

    path: str
    name: str
    text: Lines
    look: str
    parts: "tuple[Branch, ...]" = ()
    left_out: int = 0
    is_open: bool = False


def grow_tree(value: Any, root: str) -> Branch:
    """The tree of a value. A small one is open at once."""
    return _Grower(is_small=_count(value, _MOST_OPEN + 1) <= _MOST_OPEN).grow(root, "", value)


class _Grower:
    def __init__(self, *, is_small: bool) -> None:
        self._is_small = is_small
        self._room = MOST_BRANCHES

    def grow(self, path: str, name: str, value: Any, depth: int = 0) -> Branch:
        if not isinstance(value, dict | list) or not value:
            return Branch(path, name, _write(value), _look_of(value))
        named: Iterable[tuple[Any, Any]] = (
            value.items() if isinstance(value, dict) else enumerate(value)
        )
        is_open = self._is_small or depth == 0
        parts: list[Branch] = []
        for key, each in named:
            if self._room <= 0:
                break
            self._room -= 1
            parts.append(self.grow(f"{path}.{len(parts)}", str(key), each, depth + 1))
        shape = "{%d}" if isinstance(value, dict) else "[%d]"
        left_out = len(value) - len(parts)
        text = Lines(shape % len(value))
        return Branch(path, name, text, "group", tuple(parts), left_out, is_open)


def _count(value: Any, most: int) -> int:
    """The number of parts at any depth, counted up to ``most``."""
    count, left = 0, [value]
    while left and count < most:
        each = left.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += len(inner)
        left.extend(inner)
    return count


def _write(value: Any) -> Lines:
    text = escape_json(msgspec.json.encode(value).decode())
    if len(text) <= LONGEST_LEAF:
        return Lines(text)
    return Lines(f"{text[:LONGEST_LEAF]}… ({len(text):,} characters)")


def _look_of(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "word"
