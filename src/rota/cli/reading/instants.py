"""Instants and zones as people type them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzlocal

from rota.errors import InvalidInputError, InvalidZoneError
from rota.triggers.dst_notes import describe_change
from rota.triggers.zone import instants_of, load_zone, transition_around


@dataclass(frozen=True, slots=True)
class ChosenZone:
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
    try:
        return ChosenZone(load_zone(tzlocal.get_localzone_name() or ""), "host")
    except (InvalidZoneError, ZoneInfoNotFoundError):
        return ChosenZone(ZoneInfo("UTC"), "fallback")


def ask_about(text: str | None) -> dict[str, str]:
    """An instant, or a time on the wall, in the words of a question to the API; none for None."""
    if text is None:
        return {}
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f'Invalid --at "{text}": it is not an ISO 8601 time', {"field": "--at"}
        ) from error
    return {"wall" if at.tzinfo is None else "at": at.isoformat()}


def read_instant(text: str, zone: ZoneInfo, option: str) -> datetime:
    """An ISO 8601 instant in UTC; without an offset it is wall time in ``zone``.

    A wall time shown twice means its first showing; one that never happens is refused, as is
    anything that is no instant, in the name of ``option``.
    """
    try:
        written = datetime.fromisoformat(text)
    except ValueError:
        reason = "is no ISO 8601 date and time, such as 2027-03-28T09:00 or 2027-03-28T08:00Z"
        raise _refusal(option, text, reason) from None
    try:
        if written.tzinfo is not None:
            return written.astimezone(UTC)
        for instant in instants_of(written, zone, gap="skip", fold="first"):
            return instant
        gap = transition_around(written, zone)
    except OverflowError:
        gap = None
    if gap is None:
        raise _refusal(option, text, "is beyond the calendar")
    raise _refusal(option, text, f"does not exist in {zone.key}: {describe_change(gap)}")


def _refusal(option: str, value: str, reason: str) -> InvalidInputError:
    details = {"field": option, "value": value, "reason": reason}
    return InvalidInputError(f'{option} "{value}" {reason}', details)
