"""Options and arguments that commands share: what people type is read, and the help texts."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
from cyclopts import Parameter

from rota.clock.duration import read_duration as parse_duration
from rota.errors import InvalidInputError, InvalidZoneError, invalid
from rota.jobs.job_state import JobState, parse_states
from rota.triggers.cron import Dialect
from rota.triggers.dst_notes import describe_change
from rota.triggers.zone import Fold, Gap, instants_of, load_zone, transition_around


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
        try:
            return ChosenZone(load_zone(name), "given")
        except InvalidZoneError as error:
            near = get_close_matches(name, available_timezones(), n=1)
            guess = f"; did you mean {near[0]}?" if near else ""
            error.add_note(f"--zone takes an IANA name, such as Europe/London{guess}")
            raise

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


MOST_OCCURRENCES = 10_000

Check = Callable[[object, float | None], None]
"""A validator for cyclopts."""


def bounds(
    *, least: float | None = None, above: float | None = None, most: float | None = None
) -> Check:
    """A validator of numbers from ``least`` or just above ``above`` to ``most``.

    Cyclopts has validators of its own, but they are slow to load.
    """
    wanted = f"must be from {least} to {most}"
    if above is not None:
        wanted = f"must be more than {above} and at most {most}"
    elif most is None:
        wanted = f"must be at least {least}"

    def check(_kind: object, given: float | None) -> None:
        if given is None:
            return
        is_low = given < least if least is not None else above is not None and given <= above
        if is_low or (most is not None and given > most) or given != given:  # noqa: PLR0124 - not a number
            raise ValueError(wanted)

    return check


def flag(text: str, name: str | Sequence[str] | None = None) -> Parameter:
    """An option without a value and without a ``--no-`` twin."""
    return Parameter(name=name, negative="", show_default=False, help=text)


def value(metavar: str, text: str, name: str | None = None) -> Parameter:
    """An option or argument with a value."""
    return Parameter(name=name, metavar=metavar, help=text)


def several(name: str, metavar: str, text: str) -> Parameter:
    """An option with a value that may be given several times."""
    return Parameter(name=name, metavar=metavar, negative="", show_default=False, help=text)


def number(least: int, most: int, text: str) -> Parameter:
    """An option whose value is a number within limits."""
    return Parameter(metavar="NUMBER", validator=bounds(least=least, most=most), help=text)


def _zone_names(_context: object) -> Sequence[str]:
    return sorted(available_timezones())


DialectOption = Annotated[
    Dialect,
    Parameter(
        help="posix: five fields of numbers, ranges and lists. posix-multiline: the same, also "
        "separated by line breaks. extended: steps, names, macros and seconds too."
    ),
]
ZoneOption = Annotated[
    str | None,
    Parameter(
        metavar="NAME",
        help="IANA time zone, such as Europe/London. Default: the host's.",
        completer=_zone_names,
    ),
]
CountOption = Annotated[
    int,
    Parameter(
        name=["--count", "-n"],
        metavar="NUMBER",
        validator=bounds(least=1, most=MOST_OCCURRENCES),
        help=f"How many occurrences, 1 to {MOST_OCCURRENCES}.",
    ),
]
FromOption = Annotated[
    str | None,
    Parameter(
        name="--from",
        metavar="INSTANT",
        allow_leading_hyphen=True,
        help="List what comes strictly after this ISO 8601 instant; without an offset it is wall "
        "time in the zone. Default: now.",
    ),
]
GapOption = Annotated[
    Gap,
    Parameter(
        help="A time that does not exist because clocks go forward is left out (skip), or moves "
        "on by the length of the gap (shift)."
    ),
]
FoldOption = Annotated[
    Fold,
    Parameter(
        help="A time that happens twice because clocks go back counts both times (both), or the "
        "first time only (first)."
    ),
]
StoreOption = Annotated[
    str,
    Parameter(
        metavar="URL",
        env_var="ROTA_STORE",
        help="The address of the store, such as sqlite:///rota.db.",
    ),
]
AppArgument = Annotated[
    str | None, value("MODULE:APP", "The app whose tasks to run, such as tasks:app.")
]
JobArgument = Annotated[
    str,
    Parameter(metavar="ID", validator=check_argument, help="The id of a job, or its beginning."),
]
OfQueueOption = Annotated[str | None, value("NAME", "Only jobs of this queue.")]
OfKindOption = Annotated[str | None, value("NAME", "Only jobs of this kind.")]
LimitOption = Annotated[int, number(1, 10_000, "How many to list at most.")]
WhyOption = Annotated[str | None, value("TEXT", "The reason, for the audit log.")]
CascadeOption = Annotated[bool, flag("Also submit again the jobs that it blocked.")]
DryRunOption = Annotated[bool, flag("Show what would be done, and do nothing.")]
YesOption = Annotated[bool, flag("Do not ask for confirmation.", name=["--yes", "-y"])]
PAYLOAD_HELP = "What the handler receives; @FILE reads a file, - standard input."
PayloadOption = Annotated[
    str, Parameter(metavar="JSON", allow_leading_hyphen=True, help=PAYLOAD_HELP)
]
NewPayloadOption = Annotated[
    str | None, Parameter(metavar="JSON", allow_leading_hyphen=True, help=PAYLOAD_HELP)
]
NotifiesOption = Annotated[
    bool | None,
    Parameter(
        negative="--no-notifies",
        show_default=False,
        help="Whether quiet hours hold it back. Default: its kind decides.",
    ),
]
LabelOption = Annotated[
    str | None, value("LABEL", "Only workers that offer this version label run it.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class NewJob:
    """The options of a new job or series, besides its name and when it runs."""

    kind: Annotated[str | None, value("NAME", "Which handler runs it. Default: the name.")] = None
    queue: Annotated[str, value("NAME", "Which queue it waits in.")] = "default"
    payload: PayloadOption = "{}"
    priority: Annotated[int, number(1, 10, "1 to 10, 10 first.")] = 5
    key: Annotated[str | None, value("TEXT", "Create no second one of its kind with this key.")] = (
        None
    )
    notifies: NotifiesOption = None
    label: LabelOption = None

    def to_body(self, name: str) -> dict[str, Any]:
        """The job as the service takes it."""
        return given(
            name=name,
            kind=self.kind,
            queue=self.queue,
            payload=read_json(self.payload, "--payload"),
            priority=self.priority,
            idempotency_key=self.key,
            notifies=self.notifies,
            label=self.label,
        )


def _check_state(_type: object, word: str | None) -> None:
    if word is not None:
        try:
            parse_states(word)
        except InvalidInputError as error:
            raise invalid("--state", error.message.removeprefix("state ")) from error


StateOption = Annotated[
    str | None,
    Parameter(
        metavar="STATE",
        validator=_check_state,
        help=f"One of {', '.join(JobState)}, or several with commas between.",
    ),
]


def join_query(search: str | None, state: str | None) -> str | None:
    """One query of the text and the state, as the service reads it."""
    parts = [*filter(None, [search]), *([] if state is None else [f"state:{state.lower()}"])]
    return " ".join(parts) or None
