"""``rota serve``: the API and the pages."""

from typing import Annotated

from rota.cli.arguments import choose_zone
from rota.cli.options import AppArgument, ZoneOption, value
from rota.cli.output import GivenTerminal
from rota.cli.process import TASKS_HELP, ListenOptions, ProcessOptions, TaskRules, load_app
from rota.runtime.plan import RuntimePlan
from rota.runtime.user_modules import read_registrations


def serve(
    app: AppArgument = None,
    /,
    *,
    listen: ListenOptions = ListenOptions(),
    tasks: Annotated[str | None, value("MODULE:NAME", TASKS_HELP)] = None,
    zone: ZoneOption = None,
    process: ProcessOptions = ProcessOptions(),
    rules: TaskRules = TaskRules(),
    terminal: GivenTerminal,
) -> None:
    """Run the API and the pages, and declarative tasks if they are named."""
    loaded = load_app(app)
    local = choose_zone(zone).zone
    registrations = None if tasks is None else read_registrations(tasks)
    plan = RuntimePlan(
        store_url=process.choose_store(loaded),
        binding=listen.make_binding(),
        tasks=None
        if registrations is None
        else rules.make_plan(lambda _store, _clock: registrations, local),
        apps=() if loaded is None else (loaded,),
        webhook=process.webhook,
        settings=process.read_settings(loaded),
    )
    process.run(terminal, plan)
