"""Tables of jobs, dead letters and attempts."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from rota.auth.masking import mask_secrets
from rota.cli.output import NOTHING, Row, Terminal, Viewer, print_table, read_utc, show_text
from rota.escape import escape
from rota.jobs import Ending, JobState, JobStatus
from rota.jobs.job_state import StateFacts, judge_state

WIDE = 120
"""Columns a terminal must have for all that is listed; elsewhere a line may be as long."""

WAITING = (JobState.PENDING, JobState.BLOCKED)
"""States of jobs that run once others have ended, or not at all: no time says when."""

STYLES = {
    JobState.RUNNING: "green",
    JobState.STALLED: "red",
    JobState.COMPLETED: "dim",
    JobState.DEAD: "red",
    JobState.DISCARDED: "red",
    JobState.BLOCKED: "yellow",
    JobState.HELD: "yellow",
    JobState.RETRYING: "yellow",
}


def is_narrow(console: Console) -> bool:
    return console.is_terminal and console.width < WIDE


def job_row(job: dict[str, Any], viewer: Viewer, console: Console) -> Row:
    state = read_state(job, viewer.now)
    policy = job.get("retry_policy") or {}
    style = STYLES.get(state, "")
    if is_narrow(console):
        name = show_text(job["name"], 80)
        run = NOTHING if state in WAITING else viewer.relative(job["run_at"])
        return {"Id": escape(job["id"]), "State": state.value, "Run": run, "Name": name}, style
    cells = {
        "Id": escape(job["id"]),
        "State": state.value,
        "Queue": escape(job["queue"]),
        "Kind": show_text(job["kind"], 40),
        "Run at": viewer.show(job["run_at"]),
        "Failed": f"{job['attempt_count']}/{policy.get('max_attempts', NOTHING)}",
        "Name": show_text(job["name"], 80),
    }
    return cells, style


def read_state(job: dict[str, Any], now: datetime) -> JobState:
    """The state of a job as the API describes it."""
    lease, deferral = job.get("lease"), job.get("deferral")
    return judge_state(
        StateFacts(
            JobStatus(job["status"]),
            read_utc(job["run_at"]),
            job["attempt_count"],
            bool(job.get("is_paused")),
            Ending(job["ending"]) if job.get("ending") else None,
            read_utc(lease["until"]) if lease else None,
            read_utc(deferral["until"]) if deferral else None,
        ),
        now,
    )


def letter_row(job: dict[str, Any], viewer: Viewer) -> Row:
    cells = {
        "Id": escape(job["id"]),
        "Ended": viewer.relative(job["updated_at"]),
        "Tries": str(job["attempt_count"]),
        "Name": show_text(job["name"], 40),
        "Error": show_text(job["last_error"], 200),
    }
    return cells, "red" if job["ending"] != "discarded" else ""


def describe_progress(progress: dict[str, Any], viewer: Viewer) -> str:
    """How far a running job is."""
    done, total, message = progress["done"], progress["total"], progress["message"]
    text = f"{done:g} done" if not total else f"{done:g} of {total:g} ({done / total:.0%})"
    text += "" if message is None else f", {show_text(message, 200)}"
    return f"{text}, {viewer.show(progress['at'])}"


def print_attempts(terminal: Terminal, attempts: Sequence[dict[str, Any]], viewer: Viewer) -> None:
    """Print the attempts of a job below what is known of it, if there are any."""
    if attempts:
        terminal.print_text()
        print_table(terminal.out, [_attempt_row(it, viewer) for it in attempts])


def _attempt_row(attempt: dict[str, Any], viewer: Viewer) -> Row:
    cells = {
        "Attempt": str(attempt["number"]),
        "Began": viewer.show(attempt["started_at"]),
        "Outcome": show_text(attempt["outcome"], 40),
        "Took": show_duration(attempt["started_at"], attempt["ended_at"]),
        "Worker": show_text(attempt["worker"], 60),
        "Error": show_text(attempt["error"], 300),
    }
    return cells, ""


def show_duration(started_at: str, ended_at: str) -> str:
    """How long an attempt took."""
    took = datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)
    seconds = took.total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def describe_recurrence(recurrence: dict[str, Any] | None) -> str:
    """When a series occurs, as it was written."""
    if not recurrence:
        return NOTHING
    if recurrence.get("cron"):
        text = f"cron {recurrence['cron']}"
    elif recurrence.get("rrule"):
        text = str(recurrence["rrule"])
    else:
        text = f"every {recurrence.get('interval')}"
    return escape(f"{text} ({recurrence.get('zone', 'UTC')})")


def job_facts(job: dict[str, Any], viewer: Viewer) -> Iterator[tuple[str, str]]:
    """All that is worth knowing of one job."""
    policy = job.get("retry_policy") or {}
    yield "Name", show_text(job["name"])
    yield "State", f"{read_state(job, viewer.now)} ({_show_status(job)})"
    yield "Kind", show_text(job["kind"])
    yield "Queue", f"{escape(job['queue'])}, priority {job['priority']}"
    yield "Tenant", show_text(job.get("tenant"))
    yield "Run at", f"{viewer.show(job['run_at'])} ({viewer.relative(job['run_at'])})"
    yield "Tries", f"{job['attempt_count']} of {policy.get('max_attempts')} failed"
    yield "Last error", show_text(job.get("last_error"), 500)
    yield "Recurs", describe_recurrence(job.get("recurrence"))
    yield "Held back", _show_deferral(job.get("deferral"), viewer)
    yield "Worker", _show_lease(job.get("lease"), viewer)
    yield "Depends on", ", ".join(map(escape, job.get("dependencies") or ())) or NOTHING
    yield "Replaces", show_text(job.get("replaces"))
    yield "Key", show_text(job.get("idempotency_key"))
    yield "Payload", show_text(json.dumps(mask_secrets(job.get("payload"))), 2000)
    yield "Created", f"{viewer.show(job['created_at'])} ({viewer.relative(job['created_at'])})"
    yield "Changed", f"{viewer.show(job['updated_at'])} ({viewer.relative(job['updated_at'])})"
    if "removed_at" in job:
        yield "Removed", _show_removal(job["removed_at"], viewer)


def _show_status(job: dict[str, Any]) -> str:
    ending = job.get("ending")
    return f"{job['status']}, {escape(ending)}" if ending else str(job["status"])


def _show_deferral(deferral: dict[str, Any] | None, viewer: Viewer) -> str:
    if not deferral:
        return NOTHING
    return f"until {viewer.show(deferral['until'])}: {show_text(deferral['reason'])}"


def _show_removal(removed_at: str | None, viewer: Viewer) -> str:
    if removed_at is None:
        return "never, by the rules of retention"
    return f"{viewer.show(removed_at)} ({viewer.relative(removed_at)}), once no job depends on it"


def _show_lease(lease: dict[str, Any] | None, viewer: Viewer) -> str:
    if not lease:
        return NOTHING
    return f"{show_text(lease['worker'])}, until {viewer.show(lease['until'])}"
