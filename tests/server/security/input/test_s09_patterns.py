"""S9: no pattern of a user is expensive; cron and recurrence rules have a budget."""

import ast
from typing import Any

import pytest
from tests.architecture import source_tree
from tests.architecture.reading import _dotted
from tests.server.security.conftest import Stage

COMPILING = {f"re.{name}" for name in ("compile", "match", "search", "fullmatch", "sub", "findall")}

NEVER_DUE: list[dict[str, Any]] = [
    {"cron": "0 0 30 2 *"},
    {"cron": "0 0 31 4,6,9,11 *"},
    {"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"},
    {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=31"},
    {"rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"},
    {"rrule": "FREQ=MINUTELY;INTERVAL=59;BYHOUR=3;BYMONTH=2;BYMONTHDAY=30"},
    {"rrule": "FREQ=YEARLY;INTERVAL=9999;BYWEEKNO=53;BYDAY=MO;BYSETPOS=300"},
    {"rrule": "FREQ=HOURLY;BYYEARDAY=366;BYMONTH=1"},
    {"rrule": "FREQ=SECONDLY;INTERVAL=2147483647;BYSECOND=59;BYMONTHDAY=31;BYMONTH=2"},
]
HUGE: list[dict[str, Any]] = [
    {"cron": ",".join(["*"] * 50_000) + " * * * *"},
    {"cron": "*/" + "9" * 10_000 + " * * * *"},
    {"cron": " ".join(["0"] * 10_000)},
    {"rrule": "FREQ=DAILY;BYSECOND=" + ",".join(["1"] * 50_000)},
    {"rrule": ";".join(["FREQ=DAILY"] * 10_000)},
    {"rrule": "FREQ=DAILY;COUNT=" + "9" * 10_000},
    {"interval": "1h" * 20_000},
    {"interval": "9" * 10_000 + "h"},
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("recurrence", NEVER_DUE + HUGE, ids=lambda it: str(it)[:60])
async def test_an_impossible_rule_is_refused_without_an_endless_search(
    stage: Stage, recurrence: dict[str, Any]
) -> None:
    """Each of these would keep a naive search busy for minutes; here all of them take a moment."""
    client = await stage.sign_up()
    job = {"name": "x", "queue": "q", "recurrence": recurrence}
    answer = await client.post("/api/v1/jobs", json=job)
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == "VALIDATION_ERROR"
    assert len(answer.content) < 10_000
    body = {"recurrence": recurrence, "count": 10}
    assert (await client.post("/api/v1/series/preview", json=body)).status_code in {200, 400}


def patterns_of_users(tree: ast.Module) -> list[int]:
    """Lines on which a function compiles a pattern that is not a constant."""
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            is_compiling = isinstance(node, ast.Call) and _dotted(node.func) in COMPILING
            if is_compiling and not isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]  # a call
                found.append(node.lineno)  # type: ignore[attr-defined]  # a call
    return found


OWN_PATTERNS = {
    "src/rota/triggers/cron_fields.py": "one of two sets of blanks, escaped",
    "src/rota/server/http/endpoint.py": "the paths of our own table, as Starlette compiles them",
    "src/rota/stores/postgres/queries.py": "the name of our own schema",
}
"""Where a pattern is put together, and from what."""


def test_no_pattern_of_a_user_is_compiled() -> None:
    found = {
        module.path: patterns_of_users(module.tree)
        for module in source_tree.source_modules()
        if module.path not in OWN_PATTERNS
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_search_for_patterns_finds_one() -> None:
    tree = ast.parse("def f(text):\n    return re.search(text, 'x') or re.search('x', text)\n")
    assert patterns_of_users(tree) == [2]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text", ["(a+)+$", "%" * 1_000, "_" * 1_000, "*" * 1_000, "a" * 100 + "!", "[", "\\"]
)
async def test_a_search_for_text_looks_for_the_text_itself(stage: Stage, text: str) -> None:
    client = await stage.sign_up()
    await client.post("/api/v1/jobs", json={"name": "a" * 255, "queue": "q"})
    await client.post("/api/v1/jobs", json={"name": text[:255], "queue": "q"})
    answer = await client.get("/api/v1/jobs/search", params={"text": text[:200]})
    if answer.status_code == 200:
        names = [item["name"] for item in answer.json()["items"]]
        assert names == [text[:255]]
    else:
        assert answer.json()["details"]["field"] == "text"
