"""``rota shards``: the shards of a store, and moving tenants between them."""

import asyncio
from typing import Annotated, Any

from cyclopts import App
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from rota.cli.options import StoreOption, flag, format_instant, value
from rota.cli.output import PLAIN, Output, Row, Terminal, count_of, print_table
from rota.cli.progress import Bars
from rota.escape import escape
from rota.runtime.shards import ShardsStatus, add_shard, drain_shard, move_tenant, read_status
from rota.runtime.wiring import DEFAULT_STORE
from rota.stores.opened import MoveReport, ShardReport

app = App(name="shards")

TenantArgument = Annotated[str, value("TENANT", "The tenant to move.")]
ToArgument = Annotated[str, value("SHARD", "The shard to move it to.")]
ShardArgument = Annotated[str, value("SHARD", "The name of a shard.")]
TenantsOption = Annotated[
    bool,
    flag("Count the jobs of each tenant on each shard, too. Reads all jobs.", name="--tenants"),
]

COUNTS = ("due_count", "later_count", "running_count", "dead_count")


@app.command(name="status")
def show_status(
    store: StoreOption = DEFAULT_STORE, *, tenants: TenantsOption = False, output: Output = PLAIN
) -> bool:
    """Show the shards, what waits and runs on each, and tenants that move.

    The exit status is 1 if a shard does not answer or a tenant is on its way.
    Try:

        rota shards status shards:///shards.toml
        rota shards status shards:///shards.toml --tenants --json
    """
    status = asyncio.run(read_status(store, counts_tenants=tenants))
    is_well = not status.moves and all(each.depths is not None for each in status.shards)
    if output.is_done(status_document(status)):
        return is_well
    terminal = output.terminal
    print_table(terminal.out, [shard_row(each) for each in status.shards])
    for name, counts in (status.tenants or {}).items():
        listed = ", ".join(f"{tenant} {count}" for tenant, count in sorted(counts.items()))
        terminal.print_text(escape(f"{name}: {listed or 'no jobs'}"))
    for move in status.moves:
        terminal.print_text(escape(describe_move(move)), "yellow")
    return is_well


@app.command(name="move")
def move(
    tenant: TenantArgument,
    shard: ToArgument,
    store: StoreOption = DEFAULT_STORE,
    *,
    output: Output = PLAIN,
) -> None:
    """Move a tenant to another shard while it works.

    Its jobs are copied first. Then nothing is leased or written for the tenant
    for about ten seconds and as long as it takes to copy what has changed;
    callers must try again. Running jobs keep their leases. If the
    command is interrupted, the same command completes the move. Try:

        rota shards move acme two shards:///shards.toml
    """
    with _Steps(output.terminal) as steps:
        moved = asyncio.run(move_tenant(store, tenant, shard, steps.report))
    document = {"tenant": tenant, "target": shard, "is_moved": moved is not None}
    if moved is None:
        output.print_done(document, f"{tenant} is on {shard} already.")
    else:
        text = f"Moved {tenant} from {moved.source} to {shard}: {count_of(moved.job_count, 'job')}."
        output.print_done(document | moved._asdict(), text)


@app.command(name="add")
def add(
    shard: ShardArgument, store: StoreOption = DEFAULT_STORE, *, output: Output = PLAIN
) -> None:
    """Let new tenants come to a shard.

    Add it to the end of the address first, and restart all programs with that
    address. Tenants that have jobs stay where they are; move them by hand. Try:

        rota shards add three shards:///shards.toml
    """
    with _Steps(output.terminal) as steps:
        asyncio.run(add_shard(store, shard, steps.report))
    output.print_done({"shard": shard, "is_added": True}, f"New tenants may come to {shard}.")


@app.command(name="drain")
def drain(
    shard: ShardArgument, store: StoreOption = DEFAULT_STORE, *, output: Output = PLAIN
) -> None:
    """Move all tenants away from a shard, one after another.

    New tenants go elsewhere from the start. Afterwards the shard can be
    removed from the address. If the command is interrupted, the same command
    continues. Try:

        rota shards drain two shards:///shards.toml
    """
    with _Steps(output.terminal) as steps:
        moved = asyncio.run(drain_shard(store, shard, steps.report))
    jobs = count_of(sum(each.job_count for each in moved), "job")
    text = f"Moved {count_of(len(moved), 'tenant')} with {jobs} away from {shard}."
    output.print_done({"shard": shard, "moved": [each._asdict() for each in moved]}, text)


class _Steps(Bars):
    """A bar for each step of a move."""

    def __init__(self, terminal: Terminal) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        super().__init__(terminal.err, *columns, is_transient=False)

    def report(self, step: str, done: int, total: int) -> None:
        self.update(self.find_bar(step, total or None), completed=done, total=total or None)


def shard_row(shard: ShardReport) -> Row:
    name = f"{shard.name} (home)" if shard.is_home else shard.name
    cells = {
        "Shard": escape(name),
        "New tenants": "yes" if shard.is_chosen else "no",
        "Exceptions": str(shard.exception_count),
    }
    if shard.depths is None:
        return cells | {"Due": "no answer", "Later": "", "Running": "", "Dead": ""}, "red"
    names = (count.removesuffix("_count").capitalize() for count in COUNTS)
    counts = (f"{shard.total(count):,}" for count in COUNTS)
    return cells | dict(zip(names, counts, strict=True)), ""


def describe_move(move: MoveReport) -> str:
    """One sentence about a tenant on its way."""
    return (
        f"{move.tenant} moves from {move.source} to {move.target} ({move.phase} since "
        f"{move.since:%Y-%m-%d %H:%M:%S} UTC). If its command was interrupted, run it again: "
        f"rota shards move {move.tenant} {move.target}"
    )


def status_document(status: ShardsStatus) -> dict[str, Any]:
    """The status for programs."""
    return {
        "shards": [
            {
                "name": each.name,
                "is_home": each.is_home,
                "takes_new_tenants": each.is_chosen,
                "exceptions": each.exception_count,
                "is_available": each.depths is not None,
                **{count: each.total(count) for count in COUNTS},
            }
            for each in status.shards
        ],
        "moves": [{**each._asdict(), "since": format_instant(each.since)} for each in status.moves],
        **({} if status.tenants is None else {"tenants": status.tenants}),
    }
