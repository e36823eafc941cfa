"""A task that notes in the file ``NOTES`` when it starts, and in which process."""

import os
from datetime import timedelta
from pathlib import Path

from rota import Rota
from rota.clock.system import SystemClock

app = Rota()


def write(line: str) -> None:
    with Path(os.environ["NOTES"]).open("a", encoding="ascii") as notes:
        notes.write(line)


@app.task(name="note")
async def note() -> None:
    clock = SystemClock()
    write(f"{clock.now().timestamp()} {os.getpid()}\n")
    await clock.sleep(timedelta(milliseconds=50))
