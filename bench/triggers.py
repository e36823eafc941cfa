"""The next occurrence, side by side with other libraries. Run: ``python bench/triggers.py``.

Three questions are timed for each expression. *Kept*: a parsed schedule is asked for its next
occurrence after each of 24 instants. *Iterating*: it is asked for 24 occurrences in a row, the only
question that cronsim answers without parsing again. *Parse + next*: text in, occurrence out; Rota
parses without any cache. Figures are µs a call, the best of 25 rounds.
"""

import importlib
import importlib.util
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from math import prod
from time import perf_counter
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from rota.triggers.cron import parse_cron

START_COUNT = 24
ROUND_COUNT = 25
LEAST_ROUND_SECONDS = 0.005
STARTS = [
    datetime(2026, 1, 1, 3, 7, 11, tzinfo=UTC) + number * timedelta(days=15, hours=5, minutes=13)
    for number in range(START_COUNT)
]
LONDON, NEW_YORK = ZoneInfo("Europe/London"), ZoneInfo("America/New_York")
EVERY_FIFTH = ",".join(str(minute) for minute in range(0, 60, 5))


class Case(NamedTuple):
    """An expression as most libraries write it, and as the strict dialect does."""

    text: str
    strict: str
    zone: ZoneInfo

    @property
    def name(self) -> str:
        return f"{self.text:<14} {self.zone.key.rpartition('/')[2].replace('_', ' ')}"


CASES = [
    Case("* * * * *", "* * * * *", ZoneInfo("UTC")),
    Case("*/5 * * * *", f"{EVERY_FIFTH} * * * *", LONDON),
    Case("0 9 * * 1-5", "0 9 * * 1-5", NEW_YORK),
    Case("30 2 * * *", "30 2 * * *", LONDON),
    Case("30 2 * * *", "30 2 * * *", NEW_YORK),
    Case("0 0 29 2 *", "0 0 29 2 *", LONDON),
    Case("0 0 1,15 * 5", "0 0 1,15 * 5", LONDON),
    Case("17 4 1 1,7 *", "17 4 1 1,7 *", NEW_YORK),
]

Work = Callable[[], object]
Contestants = dict[str, Callable[[Case], Work]]


def keep_rota(case: Case) -> Work:
    cron = parse_cron(case.strict)
    return lambda: [cron.next_after(start, case.zone) for start in STARTS]


def keep_croniter(case: Case) -> Work:
    starts = local_starts(case)
    schedule = croniter(case.text, starts[0])
    return lambda: [schedule.get_next(datetime, start_time=start) for start in starts]


def keep_apscheduler(case: Case) -> Work:
    starts, trigger = local_starts(case), CronTrigger.from_crontab(case.text, case.zone)
    return lambda: [trigger.get_next_fire_time(None, start) for start in starts]


def iterate_rota(case: Case) -> Work:
    cron = parse_cron(case.strict)

    def work() -> None:
        found = STARTS[0]
        for _ in range(START_COUNT):
            found = cron.next_after(found, case.zone)

    return work


def iterate_cronsim(case: Case) -> Work:
    # Its iterator cannot be set back, so one is made for each round: 1 parse in 24 occurrences.
    start = local_starts(case)[0]

    def work() -> None:
        schedule = CronSim(case.text, start)
        for _ in range(START_COUNT):
            next(schedule)

    return work


def iterate_croniter(case: Case) -> Work:
    start = local_starts(case)[0]
    schedule = croniter(case.text, start)

    def work() -> None:
        schedule.set_current(start)
        for _ in range(START_COUNT):
            schedule.get_next(datetime)

    return work


def iterate_apscheduler(case: Case) -> Work:
    start, trigger = local_starts(case)[0], CronTrigger.from_crontab(case.text, case.zone)

    def work() -> None:
        found = start
        for _ in range(START_COUNT):
            found = trigger.get_next_fire_time(found, found)

    return work


def parse_rota(case: Case) -> Work:
    return lambda: [parse_cron(case.strict).next_after(start, case.zone) for start in STARTS]


def parse_cronsim(case: Case) -> Work:
    starts = local_starts(case)
    return lambda: [next(CronSim(case.text, start)) for start in starts]


def parse_croniter(case: Case) -> Work:
    starts = local_starts(case)
    return lambda: [croniter(case.text, start).get_next(datetime) for start in starts]


def parse_apscheduler(case: Case) -> Work:
    starts = local_starts(case)
    return lambda: [
        CronTrigger.from_crontab(case.text, case.zone).get_next_fire_time(None, start)
        for start in starts
    ]


def local_starts(case: Case) -> list[datetime]:
    """The others are asked in local time, so they are spared the conversion that Rota makes."""
    return [start.astimezone(case.zone) for start in STARTS]


QUESTIONS: dict[str, Contestants] = {
    "kept": {"rota": keep_rota, "croniter": keep_croniter, "apscheduler": keep_apscheduler},
    "iterating": {
        "rota": iterate_rota,
        "cronsim": iterate_cronsim,
        "croniter": iterate_croniter,
        "apscheduler": iterate_apscheduler,
    },
    "parse + next": {
        "rota": parse_rota,
        "cronsim": parse_cronsim,
        "croniter": parse_croniter,
        "apscheduler": parse_apscheduler,
    },
}


def measure(works: Sequence[Work]) -> list[float]:
    """µs a call of each; rounds take turns, so that a busy moment hits every contestant."""
    repeats = [max(1, round(LEAST_ROUND_SECONDS / time_once(work, 1))) for work in works]
    best = [float("inf")] * len(works)
    for _ in range(ROUND_COUNT):
        for number, work in enumerate(works):
            best[number] = min(best[number], time_once(work, repeats[number]))
    return [seconds / START_COUNT * 1e6 for seconds in best]


def time_once(work: Work, repeat_count: int) -> float:
    began = perf_counter()
    for _ in range(repeat_count):
        work()
    return (perf_counter() - began) / repeat_count


def run_question(question: str, contestants: Contestants) -> None:
    names = list(contestants)
    print(f"\n{question}, µs a call")
    print(f"  {'':<24}" + "".join(f"{name:>13}" for name in names))
    table: list[list[float]] = []
    for number, case in enumerate(CASES, start=1):
        sys.stderr.write(f"\r{question}: {number} of {len(CASES)} …")
        table.append(measure([prepare(case) for prepare in contestants.values()]))
        sys.stderr.write("\r" + " " * 40 + "\r")
        print(f"  {case.name:<24}" + "".join(f"{figure:13.2f}" for figure in table[-1]), flush=True)
    means = [prod(column) ** (1 / len(CASES)) for column in zip(*table, strict=True)]
    print(f"  {'geometric mean':<24}" + "".join(f"{mean:13.2f}" for mean in means))
    columns = list(zip(*table, strict=True))
    for name, mean, column in zip(names[1:], means[1:], columns[1:], strict=True):
        least = min(theirs / ours for theirs, ours in zip(column, columns[0], strict=True))
        print(f"  rota is {mean / means[0]:.1f} times as fast as {name}, and at least {least:.1f}")


def main() -> None:
    versions = (
        f"{name} {version(name)}" for name in ("rota", "cronsim", "croniter", "apscheduler")
    )
    print(f"Python {platform.python_version()}, {', '.join(versions)}")
    for question, contestants in QUESTIONS.items():
        run_question(question, contestants)
    if importlib.util.find_spec("triggers_rrule") is not None:
        importlib.import_module("triggers_rrule").main()


if __name__ == "__main__":
    main()
