"""Functions that tests have called in child processes."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

from rota.worker import Context, Discard, Snooze

LOG = logging.getLogger("shop.pictures")
_calls: list[int] = []


def note_pid(context: Context) -> None:
    """Write down the process id and how many calls it has had."""
    _calls.append(1)
    with Path(context.payload["file"]).open("a") as file:
        file.write(f"{os.getpid()} {len(_calls)}\n")


def crash(context: Context) -> None:
    """End the process as the payload says, or do nothing."""
    how = context.payload["how"]
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "exit":
        os._exit(3)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def leave(_: Context) -> NoReturn:
    """Leave the program politely, which a job cannot."""
    sys.exit(4)


def look_up(context: Context) -> Any:
    """Fail two calls deep."""
    return _look_deeper(context.payload)


def _look_deeper(payload: dict[str, Any]) -> Any:
    return payload["missing"]


def sleep_and_note(context: Context) -> None:
    """Say that it has begun, sleep, and say that it has ended."""
    path = Path(context.payload["file"])
    path.write_text(f"begun {os.getpid()}\n")
    Event().wait(context.payload["seconds"])
    path.write_text("ended\n")


def wait_for_cancellation(context: Context) -> None:
    """Look again and again whether the attempt is cut short, and say why."""
    pause = Event()
    while context.cancel_reason is None:
        pause.wait(0.01)
    Path(context.payload["file"]).write_text(f"{context.cancel_reason} {os.getpid()}")


def start_another(context: Context) -> None:
    """Start a program that outlives everything, and never end."""
    started = subprocess.Popen(["sleep", "1000"])
    Path(context.payload["file"]).write_text(f"{started.pid}\n")
    Event().wait(1000)


def chatter(context: Context) -> None:
    """Log, report and print."""
    context.log.info("by the context, attempt %d", context.attempt)
    LOG.warning("by a logger")
    context.progress(3, 4, "nearly")
    print("printed")  # noqa: T201 - it must not disturb the messages
    sys.stdout.flush()
    os.write(1, b"printed from below\n")
    if context.payload.get("crashes"):
        os._exit(1)


def answer(context: Context) -> Any:
    """Return what the payload names."""
    answers = {
        "snooze": Snooze(timedelta(seconds=90)),
        "discard": Discard("not worth it"),
        "text": "ignored",
    }
    return answers[context.payload["what"]]


def not_in_children(context: Context) -> None:
    """Use what only a worker has."""
    context.once("key", lambda: None).send(None)
