"""An app whose tasks run in child processes."""

import os
from dataclasses import dataclass
from datetime import timedelta

from rota import Context, Rota, Snooze

app = Rota("memory://")


@dataclass
class Picture:
    """An argument with fields."""

    name: str
    width: int


@app.task(run_in="process", retry=1)
def shrink(picture: Picture, by: int = 2) -> dict[str, int]:
    return {picture.name: picture.width // by, "pid": os.getpid()}


@app.task(run_in="process")
def add(numbers: list[int], more: int = 0) -> int:
    return sum(numbers) + more


@app.task(run_in="process", keep_result=False)
def forget(_context: Context) -> object:
    return object()


@app.task(run_in="process")
def wait(context: Context, for_token: int) -> str | Snooze:
    """Run again until the token is this high."""
    return Snooze(timedelta(0)) if context.token < for_token else "done"


def triple(number: int) -> int:
    return 3 * number


tripled = app.task(run_in="process")(triple)
