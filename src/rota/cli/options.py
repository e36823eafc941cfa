"""Options and arguments that several commands share, with their help texts."""

from collections.abc import Sequence
from typing import Annotated
from zoneinfo import available_timezones

from cyclopts import Parameter
from cyclopts.validators import Number

from rota.cli.arguments import check_argument
from rota.errors import InvalidInputError
from rota.jobs.job_state import JobState, parse_states
from rota.triggers.cron import Dialect
from rota.triggers.zone import Fold, Gap

MOST_OCCURRENCES = 10_000


def flag(text: str, name: str | Sequence[str] | None = None) -> Parameter:
    """An option without a value and without a ``--no-`` twin."""
    return Parameter(name=name, negative="", show_default=False, help=text)


def value(metavar: str, text: str) -> Parameter:
    """An option or argument with a value."""
    return Parameter(metavar=metavar, help=text)


def number(least: int, most: int, text: str) -> Parameter:
    """An option whose value is a number within limits."""
    return Parameter(metavar="NUMBER", validator=Number(gte=least, lte=most), help=text)


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
        validator=Number(gte=1, lte=MOST_OCCURRENCES),
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
    str | None,
    value("MODULE:APP", "The app whose tasks to run, such as tasks:app."),
]
AppStoreOption = Annotated[
    str | None,
    value(
        "URL",
        "The address of the store. Default: the app's store, ROTA_STORE, or sqlite:///rota.db.",
    ),
]
JobArgument = Annotated[
    str,
    Parameter(metavar="ID", validator=check_argument, help="The id of a job, or its beginning."),
]
LimitOption = Annotated[int, number(1, 10_000, "How many to list at most.")]
WhyOption = Annotated[str | None, value("TEXT", "The reason, for the audit log.")]
CascadeOption = Annotated[bool, flag("Also submit the jobs it blocked again.")]
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


HostOption = Annotated[
    str,
    Parameter(
        metavar="ADDRESS",
        env_var="ROTA_HOST",
        help="The address to listen on; 0.0.0.0 means every address of this host.",
    ),
]
PortOption = Annotated[
    int,
    Parameter(
        metavar="NUMBER",
        env_var="ROTA_PORT",
        validator=Number(gte=0, lte=65535),
        help="The port to listen on; 0 picks a free one.",
    ),
]
HandlersOption = Annotated[
    list[str] | None,
    Parameter(
        name="--handlers",
        metavar="MODULE:NAME",
        negative="",
        help="Your handlers: a mapping from kinds to functions, or a function that receives the "
        "worker. Repeatable.",
    ),
]
_TASKS_HELP = (
    "Declarative tasks to run: a list of (name, cron, callback, retry delay), or a function that "
    "returns one."
)
TasksOption = Annotated[
    str | None,
    value("MODULE:NAME", f"{_TASKS_HELP} Default: two tasks that watch over the store."),
]
ServedTasksOption = Annotated[str | None, value("MODULE:NAME", _TASKS_HELP)]
ReloadOption = Annotated[
    bool, flag("For development: restart the worker when the files of the handlers change.")
]
KindsOption = Annotated[
    str | None,
    value(
        "NAMES", "Run jobs of these kinds only, comma-separated. Default: all that have a handler."
    ),
]
OfferedLabelOption = Annotated[
    list[str] | None,
    Parameter(
        name="--label",
        metavar="NAME",
        negative="",
        help="A version label that this worker offers. Repeatable. "
        "Jobs with another label are left to other workers.",
    ),
]
NoBuiltInOption = Annotated[
    bool, flag("Leave out the built-in kinds, such as http.request.", name="--no-builtin")
]
QueueOption = Annotated[
    list[str] | None,
    Parameter(
        name="--queue",
        metavar="NAME",
        negative="",
        help="Take jobs of this queue only. Repeatable.",
    ),
]
OnlyTenantOption = Annotated[
    list[str] | None,
    Parameter(
        name="--tenant",
        metavar="NAME",
        negative="",
        help="Take jobs of this tenant only. Repeatable.",
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    number(1, 1000, "How many jobs run at the same time. Default: the app's setting, or 10."),
]
MetricsPortOption = Annotated[
    int | None,
    Parameter(
        metavar="NUMBER",
        env_var="ROTA_METRICS_PORT",
        validator=Number(gte=0, lte=65535),
        help="Serve the metrics of this process to Prometheus on this port; 0 picks a free one. "
        "Default: off. A server shows the totals of all workers in any case.",
    ),
]
MetricsHostOption = Annotated[
    str,
    Parameter(
        metavar="ADDRESS",
        env_var="ROTA_METRICS_HOST",
        help="The address of the metrics; anyone who can reach it can read them.",
    ),
]
KeepOption = Annotated[
    str | None,
    Parameter(
        metavar="RULES",
        env_var="ROTA_KEEP",
        help="How long things are kept after their end, such as ended=7d,dead=90d. Names: ended, "
        "dead, results, attempts, audit, effects; or forever. Stored rules come first. "
        "Default: ended=30d,dead=90d,audit=365d,effects=30d.",
    ),
]
AlertWebhookOption = Annotated[
    str | None,
    value("URL", "Post alerts to this address; by default that of ROTA_ALERT_WEBHOOK."),
]
AlertSecretOption = Annotated[
    str | None,
    value("NAME", "The name of the secret that signs alerts; by default ROTA_ALERT_SECRET."),
]
LinesOption = Annotated[
    bool, flag("Print what happens as lines of JSON, for log collectors.", name="--json")
]


def _check_state(_type: object, word: str | None) -> None:
    if word is not None:
        try:
            parse_states(word)
        except InvalidInputError as error:
            raise ValueError(error.message) from error


StateOption = Annotated[
    str | None,
    Parameter(
        metavar="STATE",
        validator=_check_state,
        help=f"One of {', '.join(JobState)}; or several, with commas between.",
    ),
]


def join_query(search: str | None, state: str | None) -> str | None:
    """One query of the text and the state, as the service reads it."""
    parts = [*filter(None, [search]), *([] if state is None else [f"state:{state.lower()}"])]
    return " ".join(parts) or None
