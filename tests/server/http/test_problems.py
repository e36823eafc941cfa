"""Errors as replies, and what is said when nothing else knows what to do."""

import logging
from typing import Any

import httpx2
import pytest
from tests.server.service import JOBS, Visit, serve

from rota import errors
from rota.jobs import Job
from rota.server.http.endpoint import ErrorLayer
from rota.server.http.problems import answer_error, find_meaning
from rota.stores.memory import MemoryStore

GROUPS = {
    errors.InvalidInputError: (400, "VALIDATION_ERROR"),
    errors.NotFoundError: (404, "NOT_FOUND"),
    errors.ConflictError: (409, "CONFLICT"),
    errors.RefusedError: (403, "FORBIDDEN"),
    errors.StoreError: (503, "UNAVAILABLE"),
}
SECRET = "postgresql://rota:hunter2@db.internal/rota"  # noqa: S105 - made up, and must not be seen


class FailingStore(MemoryStore):
    """Fails at everything with the error it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def insert(self, *_: Any) -> Any:
        raise self._error

    async def get(self, *_: Any) -> dict[str, Job]:
        raise self._error

    async def find(self, *_: Any) -> Any:
        raise self._error

    async def amend(self, *_: Any) -> Any:
        raise self._error

    async def delete(self, *_: Any) -> Any:
        raise self._error


def test_details_are_spelt_as_everything_in_the_api_is() -> None:
    reply = answer_error(errors.JobNotFoundError("7"))
    assert b'"details":{"job_id":"7"}' in reply.content


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_each_group_of_errors_has_a_status(group: type[errors.RotaError]) -> None:
    assert find_meaning(group) == GROUPS[group]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.UnauthorizedError, 401),
        (errors.ForbiddenError, 403),
        (errors.QuotaExceededError, 429),
        (errors.RequestTooLargeError, 413),
        (errors.UnsupportedMediaError, 415),
        (errors.MethodNotAllowedError, 405),
        (errors.DependencyCycleError, 409),
        (errors.UnknownDependencyError, 400),
        (errors.NoOccurrenceError, 400),
        (errors.StoreClosedError, 503),
        (errors.DeadlockError, 500),
        (ValueError, 500),
    ],
)
def test_an_error_is_what_its_nearest_ancestor_is(kind: type[Exception], status: int) -> None:
    assert find_meaning(kind).status == status


def test_a_rate_limit_error_has_retry_after() -> None:
    reply = answer_error(errors.QuotaExceededError("Too many", "token_rate", 7))
    assert (b"retry-after", b"7") in reply.headers


async def _ask_everything(service: Visit) -> list[httpx2.Response]:
    one = f"{JOBS}/01890a5d-ac96-774b-bcce-b302099a8057"
    client = service.client
    return [
        await client.post(JOBS, json={"name": "a", "queue": "q"}),
        await client.get(JOBS),
        await client.get(one),
        await client.put(one, json={"id": "x"}),
        await client.put(one, json={"priority": 1}),
        await client.delete(one),
    ]


@pytest.mark.parametrize("error", [ZeroDivisionError(SECRET), KeyError("x"), RecursionError()])
async def test_an_unexpected_error_is_logged_and_hidden_from_the_caller(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with serve(FailingStore(error)) as service:
            answers = await _ask_everything(service)
    for answer in answers:
        problem = answer.json()
        assert answer.status_code == 500
        assert problem["code"] == "INTERNAL"
        assert "hunter2" not in answer.text
        assert "Error" not in answer.text
        assert problem["details"]["incident"] in caplog.text
    assert type(error).__name__ in caplog.text


async def test_a_store_that_is_away_is_503_and_its_address_stays_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serve(FailingStore(errors.StoreUnavailableError(SECRET))) as service:
            answers = await _ask_everything(service)
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["code"] == "UNAVAILABLE"
        assert answer.headers["retry-after"] == "5"
        assert "hunter2" not in answer.text


async def test_an_answer_that_has_begun_is_not_begun_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[Any] = []

    async def break_off(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    async def send(message: Any) -> None:
        sent.append(message)

    with caplog.at_level(logging.ERROR):
        await ErrorLayer(break_off)({"type": "http", "method": "GET"}, None, send)  # type: ignore[arg-type] # never asked
    assert [message["status"] for message in sent] == [200]
    assert "ValueError" in caplog.text
