"""The options that say how declarative tasks run."""

from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Literal

from cyclopts import Parameter

from rota.cli.arguments import read_duration
from rota.cli.options import number, value
from rota.runtime.plan import ListTasks, TaskPlan
from rota.scheduler.policy import POLICIES, SchedulerSettings


@Parameter(name="*", group="Tasks")
@dataclass(frozen=True)
class TaskRules:
    """The edition and the limits of the scheduler of declarative tasks."""

    policy: Annotated[
        Literal["declarative", "polling"],
        Parameter(
            help="declarative: specification 1. polling: specification 2; a repeated hour runs "
            "once and a changed task starts as a new one."
        ),
    ] = "declarative"
    max_runs: Annotated[int, number(1, 100_000, "How many tasks run at the same time.")] = 1_000
    run_timeout: Annotated[
        str, value("DURATION", "A task that runs longer is cancelled, and fails.")
    ] = "24h"
    poll_at_least_every: Annotated[
        str | None,
        value("DURATION", "Report polls this often even if no task is due, as a sign of life."),
    ] = None

    def make_plan(self, list_tasks: ListTasks, zone: tzinfo) -> TaskPlan:
        every = self.poll_at_least_every
        settings = SchedulerSettings(
            max_concurrent_runs=self.max_runs,
            run_timeout=read_duration(self.run_timeout, "--run-timeout"),
            poll_at_least_every=None
            if every is None
            else read_duration(every, "--poll-at-least-every"),
        )
        return TaskPlan(list_tasks, zone, POLICIES[self.policy], settings)


DEFAULT_RULES = TaskRules()
