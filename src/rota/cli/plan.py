"""``rota plan``: what starting an app would change in its schedules."""

import asyncio

import msgspec
from rich.text import Text

from rota.app import Rota
from rota.cli.options import AppArgument
from rota.cli.output import PLAIN, Output, print_verbatim
from rota.cli.process import load_app
from rota.errors import InvalidInputError
from rota.escape import escape
from rota.schedules import SchedulePlan


def show_plan(app: AppArgument = None, /, *, output: Output = PLAIN) -> None:
    """Print the plan of the app's schedules, on the app's own store."""
    loaded = load_app(app)
    if loaded is None:
        raise InvalidInputError("APP is missing; write module:app", {"field": "APP"})
    plan = asyncio.run(_ask(loaded))
    if output.is_done(msgspec.to_builtins(plan)):
        return
    for line in str(plan).splitlines():
        print_verbatim(output.terminal.out, Text(escape(line)))


async def _ask(app: Rota) -> SchedulePlan:
    async with app:
        return await app.plan()
