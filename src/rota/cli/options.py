"""Options and arguments that several commands share, with their help texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from zoneinfo import available_timezones

from cyclopts import Parameter

from rota.cli.arguments import check_argument, given, read_json
from rota.errors import InvalidInputError, invalid
from rota.jobs.job_state import JobState, parse_states
from rota.triggers.cron import Dialect
from rota.triggers.zone import Fold, Gap

MOST_OCCURRENCES = 10_000

Check = Callable[[object, float | None], None]
"""A validator for cyclopts."""


def bounds(
    *, least: float | None = None, above: float | None = None, most: float | None = None
) -> Check:
    """A validator of numbers from ``least`` or just above ``above`` to ``most``.

    Cyclopts has validators of its own, but they are slow to load.
    """

    def check(_kind: object, given: float | None) -> None:
        if given is None:
            return
        if most is not None and not given <= most:
            raise ValueError(f"Must be <= {most}.")
        if above is not None and not given > above:
            raise ValueError(f"Must be > {above}.")
        if least is not None and not given >= least:
            raise ValueError(f"Must be >= {least}.")

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
