"""``rota plan``: what starting an app would change in its schedules."""

import asyncio

import msgspec

from rota.app import Rota
from rota.cli.options import AppArgument
from rota.cli.output import PLAIN, Output
from rota.cli.process import load_app
from rota.errors import InvalidInputError
from rota.schedules import SchedulePlan


def show_plan(app: AppArgument = None, /, *, output: Output = PLAIN) -> None:
    """Print the plan of the app's schedules, on the app's own store."""
    loaded = load_app(app)
    if loaded is None:
        raise InvalidInputError("APP is missing; write module:app", {"field": "APP"})
    plan = asyncio.run(_ask(loaded))
    if output.is_done(msgspec.to_builtins(plan)):
        return
    output.terminal.print_lines(str(plan))


async def _ask(app: Rota) -> SchedulePlan:
    async with app:
        return await app.plan()
