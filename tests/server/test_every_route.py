"""Every route of the table, with many requests made up from its description.

What is sent is the same in every run: a failure is seen again by running the test again. Requests
are made up when a route is tested, not when tests are collected: every process of a run collects.
"""

import re
from collections.abc import Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.config import (
    ChecksConfig,
    CoveragePhaseConfig,
    GenerationConfig,
    PhasesConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis.reporting import ignore_hypothesis_output
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.specs.openapi.checks import negative_data_rejection
from tests.server.stage import TOKEN, Stage, pick_id

from rota.jobs import normalize_job_id
from rota.runtime.wiring import open_store
from rota.server.app import DESCRIPTION, TABLE
from rota.stores.opened import OpenStore

Case: TypeAlias = schemathesis.Case[Any]

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CASE_COUNT = 500
"""How many requests are made up, beside those that try out the limits of each schema."""

BEYOND_SCHEMAS = re.compile(
    r"payload.*|idempotency_key|dependencies.*|recurrence.*|retry_policy\.max_delay_seconds|cursor"
    r"|run_at"
)
"""Fields with rules that a schema cannot say: valid as far as that goes, they may be refused."""

BEYOND_OTHER_SCHEMAS = re.compile(
    r"jobs\[\d+\]\.(payload.*|idempotency_key|dependencies.*|recurrence.*|run_at"
    r"|retry_policy\.max_delay_seconds)"  # as of one job
    r"|action|plan_id|(job|dependent)_ids|since|until|wall|running|ageing_seconds"  # beside others
    r"|ended|audit|effects"  # likewise
    r"|outcomes\[\d+\]\.(seconds|result|traceback|log)|registrations"  # likewise
    r"|text|queue|kind|status|(created|run)_(before|after)|priority_(min|max)"  # beside a plan
    r"|zone|reason|expires_at|queues"  # as zones, Unicode and the time are
)
"""The same of routes other than those of specification 5."""

SPECIFIED = {"/api/v1/jobs", "/api/v1/jobs/{job_id}"}

BEYOND_TYPES = re.compile(
    r"must be an integer(?: or null)?, got (?:float|a number)"  # a schema takes 1.0 for an integer
    r"|must not hold the character NUL"  # which PostgreSQL cannot store in a text
)
"""Reasons that no schema of a type can give."""


def _configure() -> SchemathesisConfig:
    generation = GenerationConfig(
        modes=list(GenerationMode),
        max_examples=max(CASE_COUNT // len(TABLE), 1),
        deterministic=True,
        database="none",
    )
    accepted = PositiveDataAcceptanceConfig(
        expected_statuses=["2xx", 400, 403, 404, 409]  # 400 is looked at by a check of our own
    )
    checks = ChecksConfig(positive_data_acceptance=accepted)
    phases = PhasesConfig(coverage=CoveragePhaseConfig(enabled=True))
    project = ProjectConfig(generation=generation, checks=checks, phases=phases)
    return SchemathesisConfig(projects=ProjectsConfig(default=project))


def _load(open_store: Callable[[], Awaitable[OpenStore]]) -> Any:
    loaded = schemathesis.openapi.from_dict(DESCRIPTION.document(), config=_configure())
    loaded.app = Stage(open_store)
    loaded.hook("map_path_parameters")(_find_jobs)
    return loaded


def _find_jobs(_context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Many requests should find what they ask for."""
    job_id = (parameters or {}).get("job_id")
    if parameters and isinstance(job_id, str) and normalize_job_id(job_id):
        parameters["job_id"] = pick_id(job_id)
    return parameters


def _is_refused_for_a_reason(
    _context: schemathesis.CheckContext, response: schemathesis.Response, case: Case
) -> None:
    """What is refused names a field; what is valid is refused only where rules go further."""
    if response.status_code != 400:
        return
    problem = response.json()
    details = problem.get("details", {})
    if "task_name" in details:  # the words of specification 1
        return
    field = details.get("field")
    assert field, f"no field is named: {problem}"
    if BEYOND_TYPES.search(problem["message"]):
        return
    if case.meta is not None and case.meta.generation.mode.is_positive:
        is_beyond = BEYOND_SCHEMAS.fullmatch(field) or (
            case.operation.path not in SPECIFIED and BEYOND_OTHER_SCHEMAS.fullmatch(field)
        )
        assert is_beyond, f"valid by the schema, and refused: {problem}"


async def _open_sqlite(folder: TemporaryDirectory[str]) -> OpenStore:
    return await open_store(f"sqlite:///{Path(folder.name) / 'rota.db'}")


@cache
def on_sqlite() -> Any:
    folder = TemporaryDirectory(ignore_cleanup_errors=True)
    return _load(partial(_open_sqlite, folder))


def _keep_promises(case: Case) -> None:
    vanishes = any(value in ([], {}, None) for value in (case.query or {}).values())
    case.call_and_validate(
        headers=HEADERS,
        additional_checks=[_is_refused_for_a_reason],
        # An empty list is not sent at all: what is left of the query is valid.
        excluded_checks=[negative_data_rejection] if vanishes else [],
    )


def _try_route(schema: Any, route: tuple[str, str]) -> None:
    """Send all requests of one route, as the plugin of schemathesis would."""
    method, path = route
    feedback = FeedbackSources(constants_value_source=make_constants_value_source(schema))
    try_all = build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=_keep_promises,
        given_kwargs={},
        feedback=feedback,
    )
    with ignore_hypothesis_output():
        try_all()


ROUTES = sorted({(route.method, route.path) for route in TABLE})


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_every_route_keeps_its_promises(route: tuple[str, str]) -> None:
    _try_route(on_sqlite(), route)


def test_no_route_is_left_out() -> None:
    operations = on_sqlite().get_all_operations()
    assert sorted((each.ok().method.upper(), each.ok().path) for each in operations) == ROUTES
