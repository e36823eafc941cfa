"""``rota jobs create``: a job from the command line."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from rota.cli.operating.answers import done
from rota.cli.operating.options import PayloadOption
from rota.cli.reading.durations import read_duration
from rota.cli.reading.ids import check_ids
from rota.cli.reading.instants import choose_zone, read_instant
from rota.cli.reading.options import GivenTerminal, JsonOption, ZoneOption
from rota.cli.reading.payloads import read_json
from rota.cli.reading.place import NOWHERE, Place, converse
from rota.cli.rendering.occurrences import format_instant
from rota.cli.rendering.service.moments import Viewer
from rota.cli.rendering.terminal import Terminal
from rota.errors import InvalidInputError


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """What may be said of a new job, besides its name."""

    kind: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Which handler runs it. Default: the name."),
    ] = None
    queue: Annotated[str, Parameter(metavar="NAME", help="Which queue it waits in.")] = "default"
    payload: PayloadOption = "{}"
    priority: Annotated[
        int,
        Parameter(metavar="NUMBER", validator=Number(gte=1, lte=10), help="1 to 10, 10 first."),
    ] = 5
    run_at: Annotated[
        str | None,
        Parameter(metavar="INSTANT", help="When it may start; without an offset, wall time."),
    ] = None
    run_in: Annotated[
        str | None,
        Parameter(name="--in", metavar="DURATION", help="The same from now, such as 90s or 1h30m."),
    ] = None
    after: Annotated[
        list[str] | None,
        Parameter(
            metavar="ID",
            negative="",
            show_default=False,
            validator=check_ids("--after"),
            help="A job to wait for; may be given again.",
        ),
    ] = None
    max_attempts: Annotated[
        int | None,
        Parameter(metavar="NUMBER", validator=Number(gte=1, lte=10), help="How often to try."),
    ] = None
    key: Annotated[
        str | None,
        Parameter(metavar="TEXT", help="Makes it the only job of its kind with this key."),
    ] = None
    auto_remove: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Forget the job once it has succeeded."),
    ] = False
    zone: ZoneOption = None


NOTHING_SAID = Wanted()


def create(
    name: Annotated[str, Parameter(metavar="NAME", help="What people call the job.")],
    /,
    *,
    wanted: Wanted = NOTHING_SAID,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Create a job.

    For one that recurs there is rota series create. Try:

        rota jobs create hello --kind log.message --payload '{"message": "hi"}'
        rota jobs create report --queue mail --in 90s --max-attempts 5
        rota jobs create close-books --run-at 2027-03-31T18:00 --payload @books.json
    """
    body = {"name": name, **_read_body(wanted, terminal)}
    job, is_new = converse(terminal, place, lambda it: it.create("/jobs", body), makes=True)
    viewer = Viewer(terminal.clock.now(), choose_zone(wanted.zone).zone)
    when = f"{job['status']}, run at {viewer.show(job['run_at'])}"
    done(
        terminal,
        job,
        f"{'Created' if is_new else 'There already is'} {job['id']}: {when}.",
        as_json=as_json,
    )


def _read_body(wanted: Wanted, terminal: Terminal) -> dict[str, Any]:
    tries = wanted.max_attempts
    fields = {
        "queue": wanted.queue,
        "kind": wanted.kind,
        "payload": read_json(wanted.payload, "--payload"),
        "priority": wanted.priority,
        "run_at": _read_start(wanted, terminal),
        "dependencies": wanted.after,
        "retry_policy": None if tries is None else {"max_attempts": tries},
        "idempotency_key": wanted.key,
        "auto_remove": wanted.auto_remove,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _read_start(wanted: Wanted, terminal: Terminal) -> str | None:
    if wanted.run_at is not None and wanted.run_in is not None:
        message = "--run-at and --in are both given: one of them is enough"
        raise InvalidInputError(message, {"field": "--in"})
    if wanted.run_in is not None:
        return format_instant(terminal.clock.now() + read_duration(wanted.run_in, "--in"))
    if wanted.run_at is None:
        return None
    return format_instant(read_instant(wanted.run_at, choose_zone(wanted.zone).zone, "--run-at"))
