"""The pages: what runs, what waits and why, for people, at /admin.

They are made on the server and are whole without JavaScript; with it they refresh themselves.
"""

from datetime import tzinfo

from starlette.routing import BaseRoute, Route
from tzlocal import get_localzone

from rota.auth.caller import Scope
from rota.server.guarding import PageGuard
from rota.server.pages.screens.audit import show_audit
from rota.server.pages.screens.confirm import carry_out, confirm
from rota.server.pages.screens.dead_letters import show_dead_letters
from rota.server.pages.screens.gates import change_maintenance, change_quiet_hours, show_gates
from rota.server.pages.screens.job import act_on_job, show_job
from rota.server.pages.screens.jobs import show_jobs
from rota.server.pages.screens.overview import show_overview
from rota.server.pages.screens.schedules import ask_for_run, show_schedules
from rota.server.pages.screens.sign_in import Doors
from rota.server.pages.screens.workers import show_workers
from rota.server.pages.serving.assets import send_asset, send_icon
from rota.server.pages.serving.memory import ShortMemory
from rota.server.pages.serving.reception import Reception, Screen, go_home, serve_nothing
from rota.server.pages.serving.visit import HOME
from rota.server.surroundings import Surroundings

__all__ = ["page_routes"]

LOOKING: dict[str, Screen] = {
    "": show_overview,
    "/jobs": show_jobs,
    "/jobs/{job_id}": show_job,
    "/schedules": show_schedules,
    "/workers": show_workers,
    "/gates": show_gates,
    "/dead-letters": show_dead_letters,
    "/audit": show_audit,
}
"""What there is to see, for whoever may read."""

OPERATING: dict[str, Screen] = {
    "/confirm": confirm,
    "/act": carry_out,
    "/jobs/{job_id}/{verb}": act_on_job,
    "/gates/maintenance": change_maintenance,
    "/gates/quiet-hours": change_quiet_hours,
}
"""What is sent by forms, for whoever may operate."""


ADMINISTERING: dict[str, Screen] = {"/schedules/run": ask_for_run}
"""What concerns the whole installation, for whoever looks after it."""


def page_routes(
    around: Surroundings, guard: PageGuard, zone: tzinfo | None = None
) -> list[BaseRoute]:
    """Every page, the static files, and what is said where there is no page.

    Times are told on the clock of ``zone``; left out, on the host's.
    """
    reception = Reception(around, guard, zone or get_localzone(), ShortMemory())
    doors = Doors(guard)
    looking = [
        Route(f"{HOME}{path}", reception.serve(screen), methods=["GET"])
        for path, screen in LOOKING.items()
    ]
    operating = [
        Route(f"{HOME}{path}", reception.serve(screen, scope), methods=["POST"])
        for scope, screens in ((Scope.OPERATE, OPERATING), (Scope.ADMIN, ADMINISTERING))
        for path, screen in screens.items()
    ]
    return [
        Route("/", go_home, methods=["GET"]),
        Route("/favicon.ico", send_icon, methods=["GET"]),
        Route(f"{HOME}/", go_home, methods=["GET"]),
        Route(f"{HOME}/static/{{name}}", send_asset, methods=["GET"]),
        Route(f"{HOME}/sign-in", doors.show, methods=["GET"]),
        Route(f"{HOME}/sign-in", doors.enter, methods=["POST"]),
        Route(f"{HOME}/sign-out", doors.leave, methods=["POST"]),
        *looking,
        *operating,
        Route(f"{HOME}/{{rest:path}}", serve_nothing),
    ]
