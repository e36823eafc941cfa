"""A series and a declarative task with dead-man switches, for ``rota up``.

``ALERT_SECONDS`` is how long after an occurrence the task must have succeeded. It never ends.
"""

import os
from datetime import timedelta

from rota import Rota
from rota.clock.system import SystemClock
from rota.scheduler import Watched

HOUR = timedelta(hours=1)

app = Rota()


@app.schedule(timedelta(seconds=1), name="tick", alert_after="2s")
async def tick() -> None: ...


async def back_up() -> None:
    await SystemClock().sleep(HOUR)


def list_tasks() -> list[object]:
    after = timedelta(seconds=float(os.environ["ALERT_SECONDS"]))
    return [("backup", "* * * * *", Watched(back_up, after), HOUR)]
