"""The pages at /admin: what runs, what waits and why, for people.

The server renders them, and they work without JavaScript; with it they refresh themselves.
"""

from datetime import tzinfo

from starlette.routing import BaseRoute, Route

from rota.auth.caller import Scope
from rota.clock.host_zone import read_host_zone
from rota.server.http.context import ServerContext
from rota.server.http.guards import HOME, PageGuard
from rota.server.pages.access import read_audit, revoke_token, show_token, show_tokens
from rota.server.pages.confirm import carry_out, confirm
from rota.server.pages.create import show_job_form, submit_job_form
from rota.server.pages.failures import act_on_group, read_groups, read_letters, show_error_group
from rota.server.pages.gates import change_kind, change_maintenance, change_quiet_hours, show_gates
from rota.server.pages.graph import show_graph
from rota.server.pages.job import act_on_job, show_job
from rota.server.pages.jobs import show_counts, show_jobs, suggest_queues, suggest_searches
from rota.server.pages.kinds import read_kinds, show_kind
from rota.server.pages.live import stream_changes
from rota.server.pages.overview import read_overview
from rota.server.pages.public import PUBLIC, SignInPages
from rota.server.pages.queues import (
    change_limit,
    change_queue,
    change_queues,
    read_queues,
    read_workers,
    show_queue,
)
from rota.server.pages.responses import (
    Act,
    Page,
    PageServer,
    go_home,
    list_menu,
    serve_nothing,
    show,
)
from rota.server.pages.retention import change_retention, show_retention
from rota.server.pages.rule_form import create_series, show_form, show_preview
from rota.server.pages.schedules import show_calendar, show_schedules
from rota.server.pages.series import (
    act_on_series,
    act_on_task,
    read_ended,
    show_edit,
    show_series,
    show_task,
)
from rota.server.pages.templates import send_asset, send_icon
from rota.server.pages.tenants import show_shards, show_tenants, switch_tenant
from rota.server.pages.visit import RecentResults, save_preferences

__all__ = ["page_routes"]

VIEWS: dict[Scope, dict[str, Page]] = {
    Scope.WRITE: {
        "/jobs/new": show_job_form,
        "/jobs/{job_id}/edit": show_job_form,
        "/jobs/{job_id}/retry": show_job_form,
        "/jobs/{job_id}/duplicate": show_job_form,
    },
    Scope.READ: {
        "": show("overview.html", read_overview),
        "/live": stream_changes,
        "/jobs": show_jobs,
        "/jobs/counts": show_counts,
        "/jobs/suggest": suggest_searches,
        "/jobs/queues": suggest_queues,
        "/jobs/{job_id}": show_job,
        "/jobs/{job_id}/graph": show_graph,
        "/queues": show("queues.html", read_queues),
        "/queues/{queue}": show_queue,
        "/kinds": show("kinds.html", read_kinds),
        "/kinds/{kind}": show_kind,
        "/errors": show("errors.html", read_groups),
        "/errors/{group_id}": show_error_group,
        "/schedules": show_schedules,
        "/schedules/new": show_form,
        "/schedules/preview": show_preview,
        "/schedules/calendar": show_calendar,
        "/schedules/ended": show("series_ended.html", read_ended),
        "/schedules/series/{series_id}": show_series,
        "/schedules/series/{series_id}/edit": show_edit,
        "/workers": show("workers.html", read_workers),
        "/gates": show_gates,
        "/retention": show_retention,
        "/dead-letters": show("dead_letters.html", read_letters),
        "/audit": show("audit.html", read_audit),
    },
    Scope.ADMIN: {
        "/schedules/tasks/{name:path}": show_task,
        "/tenants": show_tenants,
        "/shards": show_shards,
        "/tokens": show_tokens,
        "/tokens/{token_id}": show_token,
    },
}
"""The pages, by the scope they need."""

FORMS: dict[Scope, dict[str, Act]] = {
    Scope.WRITE: {
        "/jobs/new": submit_job_form,
        "/jobs/{job_id}/edit": submit_job_form,
        "/jobs/{job_id}/retry": submit_job_form,
        "/jobs/{job_id}/duplicate": submit_job_form,
        "/schedules/new": create_series,
    },
    Scope.READ: {"/preferences": save_preferences},
    Scope.OPERATE: {
        "/confirm": confirm,
        "/act": carry_out,
        "/jobs/{job_id}/{verb}": act_on_job,
        "/schedules/series/{series_id}/{verb}": act_on_series,
        "/queues": change_queues,
        "/queues/{queue}": change_queue,
        "/errors/{group_id}": act_on_group,
        "/gates/maintenance": change_maintenance,
        "/gates/quiet-hours": change_quiet_hours,
    },
    Scope.ADMIN: {
        "/queues/{queue}/limit": change_limit,
        "/tenants": switch_tenant,
        "/gates/kinds": change_kind,
        "/schedules/tasks": act_on_task,
        "/retention": change_retention,
        "/tokens/{token_id}/revoke": revoke_token,
    },
}
"""What forms post, by the scope it needs."""


def page_routes(
    context: ServerContext, guard: PageGuard, zone: tzinfo | None = None
) -> list[BaseRoute]:
    """Every page, the static files, and the error page for unknown paths.

    Times are in ``zone``; default: the host's.
    """
    server = PageServer(context, guard, zone or read_host_zone(), RecentResults(), list_menu(VIEWS))
    sign_in = SignInPages(guard)
    views = [
        Route(f"{HOME}{path}", server.serve(page, scope), methods=["GET"])
        for scope, pages in VIEWS.items()
        for path, page in pages.items()
    ]
    forms = [
        Route(f"{HOME}{path}", server.serve_form(act, scope), methods=["POST"])
        for scope, acts in FORMS.items()
        for path, act in acts.items()
    ]
    return [
        Route("/", go_home, methods=["GET"]),
        Route("/favicon.ico", send_icon, methods=["GET"]),
        Route(f"{HOME}/", go_home, methods=["GET"]),
        Route(f"{HOME}/static/{{name}}", send_asset, methods=["GET"]),
        Route(f"{HOME}/sign-in", sign_in.show, methods=["GET"]),
        Route(f"{HOME}/sign-in", sign_in.enter, methods=["POST"]),
        Route(f"{HOME}/sign-out", sign_in.leave, methods=["POST"]),
        *(Route(path, send, methods=["GET"]) for path, send in PUBLIC.items()),
        *views,
        *forms,
        Route(f"{HOME}/{{rest:path}}", serve_nothing),
    ]
