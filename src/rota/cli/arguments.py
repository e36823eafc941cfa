"""Reads what people type: ids, instants, zones, durations and JSON."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from rota.clock.duration import read_duration as parse_duration
from rota.errors import InvalidInputError, InvalidZoneError, invalid
from rota.triggers.dst_notes import describe_change
from rota.triggers.zone import instants_of, load_zone, transition_around


class ChosenZone(msgspec.Struct, frozen=True):
    """A zone, and how it came to be the one."""

    zone: ZoneInfo
    source: Literal["given", "host", "fallback"]

    @property
    def name(self) -> str:
        return self.zone.key


def choose_zone(name: str | None) -> ChosenZone:
    """The zone of that name; without one the host's, or UTC when the host's has no name."""
    if name is not None:
        return ChosenZone(load_zone(name), "given")

    import tzlocal  # noqa: PLC0415 - not every command shows wall times

    try:
        return ChosenZone(load_zone(tzlocal.get_localzone_name() or ""), "host")
    except (InvalidZoneError, ZoneInfoNotFoundError):
        return ChosenZone(ZoneInfo("UTC"), "fallback")


def given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def ask_about(text: str | None) -> dict[str, str]:
    """An instant or a wall time as a query of the API; empty for None."""
    if text is None:
        return {}
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid("--at", f'"{text}" is not an ISO 8601 time') from error
    return {"wall" if at.tzinfo is None else "at": at.isoformat()}


def read_instant(text: str, zone: ZoneInfo, option: str) -> datetime:
    """An ISO 8601 instant in UTC; without an offset it is wall time in ``zone``.

    A wall time that occurs twice means the first one. Raises InvalidInputError for ``option`` when
    the text is not an instant or the wall time does not exist.
    """
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        reason = "is not an ISO 8601 date and time, such as 2027-03-28T09:00 or 2027-03-28T08:00Z"
        raise _refuse_instant(option, text, reason) from None
    try:
        if written.tzinfo is not None:
            return written.astimezone(UTC)
        for instant in instants_of(written, zone, gap="skip", fold="first"):
            return instant
        gap = transition_around(written, zone)
    except OverflowError:
        gap = None
    if gap is None:
        raise _refuse_instant(option, text, "is beyond the calendar")
    raise _refuse_instant(option, text, f"does not exist in {zone.key}: {describe_change(gap)}")


def read_moment(text: str | None, zone: ZoneInfo, option: str) -> str | None:
    """The same as the service takes it; None for None."""
    return None if text is None else format_instant(read_instant(text, zone, option))


def format_instant(instant: datetime) -> str:
    """ISO 8601 in UTC, with Z; fractions only where there are some."""
    return instant.replace(tzinfo=None).isoformat() + "Z"


def _refuse_instant(option: str, value: str, reason: str) -> InvalidInputError:
    details = {"field": option, "value": value, "reason": reason}
    return InvalidInputError(f'{option} "{value}" {reason}', details)


LONGEST_DURATION = timedelta(days=36_500)


def read_duration(text: str, option: str) -> timedelta:
    """Numbers with units, such as ``90s`` or ``1h30m``. ``option`` is named in the error."""
    shown = f'"{text:.40}"'
    try:
        duration = parse_duration(text, option)
    except InvalidInputError as error:
        reason = f"{shown} is not a length of time, such as 90s, 5m or 1h30m"
        raise invalid(option, reason) from error
    if not timedelta(0) < duration <= LONGEST_DURATION:
        raise invalid(option, f"{shown} must be longer than zero and at most 100 years")
    return duration


REASON = (
    "is not a job id, such as 01890a5d-ac96-774b-bcce-b302099a8057, nor 4 or more of its first "
    "characters; rota jobs list shows them"
)
LONGEST_SHOWN = 40
IdCheck = Callable[[object, str | Sequence[str] | None], None]

SHORTEST_START = 4
_START = re.compile(rf"[0-9a-fA-F-]{{{SHORTEST_START},36}}")


def check_ids(field: str) -> IdCheck:
    """A validator of job ids, and of the beginnings of ids, for an option or argument."""

    def check(_kind: object, given: str | Sequence[str] | None) -> None:
        for each in [given] if isinstance(given, str) else given or ():
            if _START.fullmatch(each) is None:
                raise invalid(field, f'"{each[:LONGEST_SHOWN]}" {REASON}')

    return check


check_argument = check_ids("ID")

LONGEST_FILE = 64 << 20

STANDARD = "-"
"""Instead of the name of a file: standard input, or standard output."""


def read_json(text: str, option: str) -> Any:
    """The value that ``text`` is, or with ``@FILE`` that the file holds; ``-`` is standard input.

    Raises InvalidInputError for ``option`` when it is not JSON.
    """
    source = _read_source(text, option)
    try:
        return msgspec.json.decode(source)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(option, f"is not JSON: {error}") from error


def _read_source(text: str, option: str) -> bytes:
    if text != STANDARD and not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    with open_input(text.removeprefix("@")) as file:
        content = file.read(LONGEST_FILE + 1)
    if len(content) > LONGEST_FILE:
        raise invalid(option, f"has more than {LONGEST_FILE >> 20} MiB; divide it")
    return content


@contextmanager
def open_input(file: str) -> Iterator[BinaryIO]:
    """The file of that name; ``-`` is standard input, which stays open.

    A failure to open or to read it is an InvalidInputError.
    """
    try:
        if file == STANDARD:
            yield sys.stdin.buffer
            return
        with Path(file).open("rb") as source:
            yield source
    except BrokenPipeError:
        raise  # of the output
    except OSError as error:
        reason = error.strerror or str(error)
        details = {"file": file, "reason": reason}
        raise InvalidInputError(f'Cannot read "{file}": {reason}', details) from error


def find_size(source: BinaryIO) -> int | None:
    """The number of bytes to read; None when it is unknown."""
    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:
        return None
