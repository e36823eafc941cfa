"""The next occurrence of recurrence rules, beside python-dateutil.

Run: ``python bench/triggers_rrule.py``; ``bench/triggers.py`` runs it too. A rule is parsed once
and asked for its next occurrence after each of 24 instants; the same rule is given starts of
different ages. Figures are µs a call, the best of several rounds.
"""

import platform
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import cycle, islice
from time import perf_counter
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

from rota.triggers.rrule import parse_rrule

LONDON = ZoneInfo("Europe/London")
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
INSTANTS = [NOW + number * timedelta(days=15, hours=5, minutes=13) for number in range(24)]
AGES = {"1 day": 1, "1 year": 365, "10 years": 3653}

FORTNIGHTLY = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18;BYMINUTE=0;BYSECOND=0"
LAST_WORKDAY = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=18"
RULES = {
    "every second Monday": FORTNIGHTLY,
    "last workday of a month": LAST_WORKDAY,
    "every 5 minutes": "FREQ=MINUTELY;INTERVAL=5",
    "every 7 minutes of hour 9": "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9",
    "daily, COUNT=100000": "FREQ=DAILY;COUNT=100000",
}
LISTED = {
    "daily": "FREQ=DAILY",
    "weekly": "FREQ=WEEKLY",
    "Monday, Wednesday, Friday": "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "monthly": "FREQ=MONTHLY",
    "last Friday of a month": "FREQ=MONTHLY;BYDAY=-1FR",
}
SLOWEST_WORTH_REPEATING = 0.05


def main() -> None:
    print(f"\nRecurrence rules, Europe/London, Python {platform.python_version()}, ", end="")
    print(f"python-dateutil {version('python-dateutil')}, µs a call")
    print(f"  {'next_after':<28}{'begun':<10}{'rota':>10}{'dateutil':>14}{'ratio':>13}")
    for name, text in RULES.items():
        for age, days in AGES.items():
            compare(name, text, age, NOW - timedelta(days=days))
    print_line("parse", "", measure_parse(), measure_their_parse())
    print(f"  {'list of 200, µs each':<38}{'rota':>10}{'dateutil':>14}{'ratio':>13}")
    for name, text in LISTED.items():
        list_both(name, text)


def compare(name: str, text: str, age: str, begun: datetime) -> None:
    rule = parse_rrule(text, zone=LONDON, start=begun)
    theirs = rrulestr(text, dtstart=begun.astimezone(LONDON))
    local = [instant.astimezone(LONDON) for instant in INSTANTS]
    print_line(name, age, measure(rule.next_after, INSTANTS), measure(theirs.after, local))


def list_both(name: str, text: str) -> None:
    """List from DTSTART. The others list local times, so they are spared the conversion."""
    rule = parse_rrule(text, zone=LONDON, start=NOW)
    theirs = rrulestr(text, dtstart=NOW.astimezone(LONDON))
    before, end = NOW - timedelta(days=1), NOW + timedelta(days=36_500)
    ours = measure(lambda _: list(rule.between(before, end, limit=200)), INSTANTS)
    print_line(name, "", ours / 200, measure(lambda _: list(islice(theirs, 200)), INSTANTS) / 200)


def print_line(name: str, age: str, ours: float, theirs: float) -> None:
    print(f"  {name:<28}{age:<10}{ours:10.1f}{theirs:14.1f}{theirs / ours:13.1f}", flush=True)


def measure(ask: Callable[[datetime], object], instants: list[datetime]) -> float:
    """A question that takes long is asked once; others many times, and the best round counts."""
    once = time_calls(ask, instants, 1)
    if once > SLOWEST_WORTH_REPEATING:
        return once * 1e6
    calls = max(24, min(2_400, int(0.02 / once)))
    return min(time_calls(ask, instants, calls) for _ in range(15)) / calls * 1e6


def time_calls(ask: Callable[[datetime], object], instants: list[datetime], calls: int) -> float:
    turns = cycle(instants)
    began = perf_counter()
    for _ in range(calls):
        ask(next(turns))
    return perf_counter() - began


def measure_parse() -> float:
    return measure(lambda begun: parse_rrule(FORTNIGHTLY, zone=LONDON, start=begun), INSTANTS)


def measure_their_parse() -> float:
    local = [instant.astimezone(LONDON) for instant in INSTANTS]
    return measure(lambda begun: rrulestr(FORTNIGHTLY, dtstart=begun), local)


if __name__ == "__main__":
    main()
