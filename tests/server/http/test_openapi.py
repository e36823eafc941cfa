"""The OpenAPI document, as programs read it."""

import re
from typing import Any

import msgspec
import pytest
from tests.server.service import JOBS, Visit

from rota.server.app import DESCRIPTION, TABLE

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(DESCRIPTION.document()))


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(each) for each in value.values()))
    return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()


async def test_it_is_served_without_a_token(service: Visit) -> None:
    answer = await service.client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT
    assert DOCUMENT["openapi"] == "3.1.0"


def test_it_has_every_route_of_the_table() -> None:
    described = {(method.upper(), path) for path, method, _ in operations()}
    assert described == {(route.method, route.path) for route in TABLE}


def test_each_operation_has_a_name_of_its_own_and_words() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    assert all(operation["summary"] for _, _, operation in operations())


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        place: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
        assert place


def test_every_part_of_a_path_is_described() -> None:
    for path, _, operation in operations():
        parts = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert parts == set(re.findall(r"{(\w+)}", path))


def test_a_token_is_asked_for_with_its_scope() -> None:
    assert DOCUMENT["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert DOCUMENT["paths"][JOBS]["post"]["security"] == [{"token": ["write"]}]
    assert DOCUMENT["paths"]["/health/live"]["get"]["security"] == []


def test_errors_are_described_with_their_body() -> None:
    answers = DOCUMENT["paths"][JOBS]["post"]["responses"]
    assert {"200", "201", "400", "401", "403", "409", "413", "415", "429", "503"} <= answers.keys()
    error = DOCUMENT["components"]["responses"]["Problem429"]
    assert error["headers"].keys() == {"Retry-After"}
    assert error["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Problem"
    }


def test_limits_are_said() -> None:
    fields = DOCUMENT["components"]["schemas"]["NewJob"]["properties"]
    assert (fields["priority"]["minimum"], fields["priority"]["maximum"]) == (1, 10)
    assert fields["queue"]["pattern"] == "^[a-zA-Z0-9_]{1,64}$"
    assert DOCUMENT["components"]["schemas"]["NewJob"]["additionalProperties"] is False


def test_a_plan_of_tasks_says_that_each_task_has_all_its_fields() -> None:
    shape = DOCUMENT["components"]["schemas"]["PlannedTask"]
    assert shape["required"] == [*shape["properties"]]


def test_a_query_is_described_as_parameters_and_not_as_a_shape() -> None:
    parameters = {each["name"]: each for each in DOCUMENT["paths"][JOBS]["get"]["parameters"]}
    assert list(parameters) == [
        "queue", "status", "priority_min", "priority_max", "created_after", "created_before",
        "cursor", "limit",
    ]  # fmt: skip
    assert parameters["limit"]["schema"].items() >= {"default": 20, "maximum": 100}.items()
    assert parameters["created_after"]["schema"]["format"] == "date-time"
    assert "JobSearch" not in DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize("method", ["post", "put"])
async def test_the_examples_are_good(service: Visit, method: str) -> None:
    path = JOBS if method == "post" else f"{JOBS}/{{job_id}}"
    example = DOCUMENT["paths"][path][method]["requestBody"]["content"]["application/json"][
        "example"
    ]
    if method == "post":
        answer = await service.client.post(JOBS, json=example)
        assert answer.status_code == 201, answer.text
    else:
        job = await service.make_job(dependencies=[(await service.make_job())["id"]])
        example.pop("dependencies", None)
        answer = await service.client.put(f"{JOBS}/{job['id']}", json=example)
        assert answer.status_code == 200, answer.text
