"""Prints what a running service does: a line for each event, or JSON lines."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.text import Text

from rota import events
from rota.cli.output import Terminal, format_duration, print_verbatim
from rota.escape import escape
from rota.events import INFO, WARNING, Event
from rota.runtime.plan import Reporter
from rota.telemetry.logs import JsonFormatter

_MILLISECOND = timedelta(milliseconds=1)
LONGEST_ERROR = 200


def describe_event(event: Event) -> str:
    """The event in a few words; an unknown one with all its fields."""
    if isinstance(event, events.JobEvent):
        words = _describe_job(event)
    else:
        ways = (_describe_task, _describe_scheduler, _describe_worker, _describe_alert)
        words = next((line for way in ways if (line := way(event)) is not None), None)
    if words is not None:
        return escape(words)
    fields = ", ".join(f"{key} {value}" for key, value in event.fields().items())
    return escape(f"{event.name}{': ' if fields else ''}{fields}")


def format_event_duration(duration: float) -> str:
    if duration < 1_000:
        return f"{duration:.0f} ms"
    return format_duration(timedelta(milliseconds=duration))


def _describe_task(event: Event) -> str | None:
    match event:
        case events.TaskRunStarted(task_name=name, scheduled_time=due_at, actual_time=at):
            return f"{name} started, {format_event_duration((at - due_at) / _MILLISECOND)} late"
        case events.TaskRunCompleted(task_name=name, duration=duration):
            return f"{name} succeeded in {format_event_duration(duration)}"
        case events.TaskRunFailed(task_name=name, error=error):
            return f"{name} failed: {error}"
        case events.TaskRetryStarted(task_name=name, retry_count=count):
            return f"{name} is tried again, retry {count}"
    return None


def _describe_scheduler(event: Event) -> str | None:
    match event:
        case events.TaskAdded(task_name=name, cron_expression=cron):
            return f"{name} is a new task: {cron}"
        case events.TasksOverridden(
            removed_tasks=removed, added_tasks=added, modified_tasks=changed
        ):
            return f"tasks: {len(added)} added, {len(changed)} changed, {len(removed)} removed"
        case events.SchedulerStopRequested():
            return "scheduler starts no more tasks"
        case events.SchedulerStopped():
            return "scheduler stopped"
    return None


def _describe_worker(event: Event) -> str | None:
    match event:
        case events.WorkerStarted(kinds=kinds, concurrency=count):
            return f"worker started: {', '.join(kinds) or 'no kinds'}; {count} at once"
        case events.WorkerStopping(running_count=count):
            return f"worker takes no more jobs; {count} still running"
        case events.WorkerStopped(manner=manner, handed_back_count=count):
            return f"worker stopped, {manner}" + (f"; {count} handed back" if count else "")
    return None


def _describe_alert(event: Event) -> str | None:
    match event:
        case events.AlertRaised(text=text):
            return f"alert: {text}"
        case events.AlertEnded(source=source, alert_name=name, concern=concern):
            return f"alert is over: {concern.replace('_', ' ')}, {source} {name}"
        case events.AlertNotSent(error=error):
            return f"the alert webhook failed: {error[:LONGEST_ERROR]}"
    return None


def _describe_job(event: events.JobEvent) -> str | None:
    job = f"{event.kind} {event.job_id}"
    if event.tenant != "default":
        job += f" of {event.tenant}"
    match event:
        case events.JobFailed(error=error, state="queued", due_at=due_at):
            again = f"again at {due_at:%H:%M:%S}Z"
            return f"{job} failed, attempt {event.attempt}, {again}: {error[:LONGEST_ERROR]}"
        case events.JobFailed(error=error):
            return f"{job} failed for good, attempt {event.attempt}: {error[:LONGEST_ERROR]}"
        case events.JobSettled(outcome=outcome, duration_ms=duration):
            return f"{job} {outcome} in {format_event_duration(duration)}"
        case events.JobDeferred(reason=reason, until=until):
            return f"{job} held back until {until:%Y-%m-%d %H:%M:%S}Z: {reason}"
        case events.JobStalled(worker=worker):
            return f"{job} was taken from {worker}, whose lease ran out"
    return None


LOGGER = "rota"
_PLAIN = logging.Formatter()
PRINTED_AS_EVENTS = ("rota.worker", "rota.scheduler", "rota.watch")


@contextmanager
def reporting(terminal: Terminal, *, as_json: bool) -> Iterator[Reporter]:
    """A reporter for one run. Logging is restored afterwards."""
    handler: logging.Handler = _JsonLines(terminal) if as_json else _Remarks(terminal)
    with _logging_to(handler):
        if as_json:
            log = logging.getLogger(f"{LOGGER}.runtime")
            yield Reporter(lambda text: log.info("%s", text))
        else:
            yield make_line_reporter(terminal)


def make_line_reporter(terminal: Terminal) -> Reporter:
    """One line for everything that happens, with the time in UTC."""

    def listen(event: Event) -> None:
        if event.level >= INFO:
            style = "yellow" if event.level >= WARNING else ""
            print_line(terminal, describe_event(event), style)

    return Reporter(
        lambda text: print_line(terminal, escape(text)),
        listen,
        lambda token: show_token(terminal, token),
    )


def print_line(terminal: Terminal, text: str, style: str = "") -> None:
    """One line with the time; all of it must be safe to show."""
    now = terminal.clock.now()
    print_verbatim(terminal.out, Text.assemble((f"{now:%H:%M:%S}Z  ", "dim"), (text, style)))


def show_token(terminal: Terminal, token: str) -> None:
    """Print the token on the terminal. It never goes to a log."""
    print_verbatim(terminal.out, Text.assemble("First token: ", (token, "bold")))
    terminal.print_text("It is shown once and allows everything: keep it, it opens the pages.")


class _Remarks(logging.Handler):
    """Prints log records that are not events; events have lines of their own.

    The traceback of an unexpected error follows its line.
    """

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in PRINTED_AS_EVENTS and hasattr(record, "event"):
            return
        style = "yellow" if record.levelno >= WARNING else ""
        print_line(self._terminal, escape(record.getMessage()), style)
        if record.exc_info:
            for line in _PLAIN.formatException(record.exc_info).splitlines():
                print_verbatim(self._terminal.out, Text(f"           {escape(line)}"))


class _JsonLines(logging.Handler):
    """Everything that is logged, a line of JSON each."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self._terminal.out.file.write(f"{self.format(record)}\n")
        self._terminal.out.file.flush()


@contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    """Send Rota's records from INFO on to the handler, and the warnings of all others."""
    root, own = logging.getLogger(), logging.getLogger(LOGGER)
    level = own.level
    root.addHandler(handler)
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeHandler(handler)
