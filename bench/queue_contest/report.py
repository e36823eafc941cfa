"""What is printed: the settings before, the figures and the verdicts after."""

import statistics

from bench.queue_contest.contestants import Contestant, Measure, StoreKind
from bench.queue_contest.harness.environments import Environments
from bench.queue_contest.harness.machine import describe_machine
from bench.queue_contest.harness.mongo_place import describe_mongo
from bench.queue_contest.harness.mysql_place import describe_mysql
from bench.queue_contest.harness.places import Ground
from bench.queue_contest.harness.redis_place import describe_redis
from bench.queue_contest.measures import Sizes
from bench.queue_contest.peers.contestant import PAYLOAD_SIZE
from bench.queue_contest.race import Results
from bench.queue_contest.targets import Comparison, Ratio, Verdict
from rich.console import Console
from rich.table import Table

TITLES = {
    StoreKind.POSTGRES: "PostgreSQL",
    StoreKind.SQLITE: "SQLite",
    StoreKind.REDIS: "Redis",
    StoreKind.MONGO: "MongoDB",
    StoreKind.MYSQL: "MariaDB",
}


def describe_run(
    contestants: list[Contestant], environments: Environments, ground: Ground
) -> list[str]:
    """Machine, interpreter, versions and servers, a line each."""
    servers = {
        StoreKind.POSTGRES: ground.describe_server,
        StoreKind.REDIS: describe_redis,
        StoreKind.MONGO: describe_mongo,
        StoreKind.MYSQL: describe_mysql,
    }
    stores = {contestant.store for contestant in contestants}
    names = sorted({contestant.environment for contestant in contestants})
    return [
        f"machine: {describe_machine()}",
        f"Python of all contestants: {environments.describe_python()}",
        *(f"versions: {environments.versions(name)}" for name in names),
        *(f"{TITLES[store]}: {servers[store]()}" for store in servers if store in stores),
    ]


def print_machine(
    console: Console, contestants: list[Contestant], environments: Environments, ground: Ground
) -> None:
    for line in describe_run(contestants, environments, ground):
        console.print(line)


def print_settings(
    console: Console,
    contestants: list[Contestant],
    environments: Environments,
    ground: Ground,
    sizes: Sizes,
) -> None:
    """Everything that decides how fast this run can be."""
    print_machine(console, contestants, environments, ground)
    for contestant in contestants:
        console.print(f"  {contestant.key}: {contestant.words}")
    console.print(
        f"no-op jobs with {PAYLOAD_SIZE} bytes of payload; enqueue one by one in {sizes.rounds}"
        f" rounds, in each a turn of {sizes.turn_seconds:g} s for all; drain of"
        f" {sizes.drain_count:,} laid in before, from the starting gun to no unfinished job in the"
        f" store; latency at {sizes.feed_rate} jobs/s, of {sizes.feed_count:,} jobs; contestants"
        f" take turns, medians of {sizes.repeats}, of latency of {sizes.feed_rounds} rounds"
    )


def print_figures(console: Console, contestants: list[Contestant], results: Results) -> None:
    """A table for each store."""
    for store, title in TITLES.items():
        rows = [contestant for contestant in contestants if contestant.store is store]
        if rows:
            console.print(_figures_table(title, rows, results))
    loops = results.loops
    if loops:
        console.print(
            f"a fixed loop took {min(loops):.0f} to {max(loops):.0f} ms between measurements:"
            " the further apart, the busier the machine was with other things"
        )
    for failure in results.failures:
        console.print(f"[red]left out:[/red] {failure.splitlines()[0]}")


def _figures_table(title: str, rows: list[Contestant], results: Results) -> Table:
    table = Table(title=title)
    table.add_column("contestant", no_wrap=True)
    heads = ("enqueue/s", "bulk/s", "drain/s", "by two/s", "p50 ms", "p99 ms")
    for head in (*heads, "CPU µs: enqueue", "drain", "idle CPU %", "commits/s"):
        table.add_column(head, justify="right")
    for contestant in rows:
        name = f"({contestant.name})" if contestant.is_limit else contestant.name
        table.add_row(name, *_cells(contestant.key, results))
    return table


def _cells(key: str, results: Results) -> list[str]:
    rates = (Measure.ENQUEUE, Measure.BULK, Measure.DRAIN, Measure.DRAIN_TWO)
    return [
        *(_spread(results, key, measure, "rate", ",.0f") for measure in rates),
        _spread(results, key, Measure.LATENCY, "p50_ms", ".1f"),
        _spread(results, key, Measure.LATENCY, "p99_ms", ".1f"),
        _pair(results, key, Measure.ENQUEUE, ("client_us", "server_us"), ".0f"),
        _pair(results, key, Measure.DRAIN, ("worker_us", "server_us"), ".0f"),
        _pair(results, key, Measure.IDLE, ("worker_percent", "server_percent"), ".2f"),
        _figure(results, key, Measure.IDLE, "commits", ".1f"),
    ]


def _spread(results: Results, key: str, measure: Measure, name: str, form: str) -> str:
    """The median, and how far the runs were apart."""
    values = results.values(key, measure, name)
    if not values:
        return "-"
    middle = format(statistics.median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle}\n[dim]{min(values):{form}}-{max(values):{form}}[/dim]"


def _figure(results: Results, key: str, measure: Measure, name: str, form: str) -> str:
    value = results.median(key, measure, name)
    return "-" if value is None else format(value, form)


def _pair(results: Results, key: str, measure: Measure, names: tuple[str, str], form: str) -> str:
    """Of the contestant's process, and of the server where there is one."""
    own, server = (_figure(results, key, measure, name, form) for name in names)
    return own if server in ("-", format(0.0, form)) else f"{own} + {server}"


def print_comparisons(console: Console, comparisons: list[Comparison]) -> None:
    """Each figure of the other checkout, of this one, and their ratio."""
    if not comparisons:
        return
    table = Table(title="This checkout against the other one")
    table.add_column("figure", no_wrap=True)
    for head in ("old", "new", "new/old"):
        table.add_column(head, justify="right")
    for each in comparisons:
        form = ",.0f" if each.before >= 100 else ",.1f"
        table.add_row(
            each.words, format(each.before, form), format(each.now, form), _show(each.ratio)
        )
    console.print(table)


def print_verdicts(console: Console, verdicts: list[Verdict]) -> None:
    """Ratios of this run beside what was set as a goal."""
    table = Table("goal", "wanted", "measured", "", title="Goals")
    for verdict in verdicts:
        sign = "at least" if verdict.is_least else "at most"
        table.add_row(
            verdict.words, f"{sign} {verdict.goal:g}", _show(verdict.ratio), _judge(verdict)
        )
    if verdicts:
        console.print(table)
        console.print("in brackets: nine of ten resamples of the runs; the goal within it is a tie")


def _judge(verdict: Verdict) -> str:
    if verdict.is_reached:
        return "[green]reached[/green]"
    return "[yellow]tie[/yellow]" if verdict.is_undecided else "[red]missed[/red]"


def _show(ratio: Ratio) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
