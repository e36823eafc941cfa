"""S8: JSON that would cost more to read than it is worth is refused, on every route."""

import gzip
import re
from typing import Any

import msgspec
import pytest
from tests.server.security.conftest import MakeStage, Stage

from rota.server import ServerSettings
from rota.server.app import TABLE
from rota.server.http.route import Nothing, Route

READING = [route for route in TABLE if route.method in {"POST", "PUT", "PATCH", "DELETE"}]
AN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
JSON = {"content-type": "application/json"}

BOMBS: dict[str, bytes] = {
    "deep lists": b"[" * 100_000,
    "deep lists that end": b"[" * 50_000 + b"]" * 50_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a number of many digits": b'{"name": ' + b"9" * 500_000 + b"}",
    "an exponent": b'{"name": 1e999999}',
    "infinity": b'{"name": Infinity}',
    "no number": b'{"name": NaN}',
    "a key twice": b'{"name": "a", "name": "b"}',
    "NUL": b'{"name": "\\u0000"}',
    "half a character": b'{"name": "\\ud800"}',
    "no UTF-8": b'{"name": "\xff"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "two values": b"{} {}",
    "nothing but spaces": b" " * 100_000,
    "many keys": b"{" + b",".join(b'"%d":1' % number for number in range(50_000)) + b"}",
}


def path_of(route: Route) -> str:
    return re.sub(r"\{\w+\}", AN_ID, route.path)


@pytest.mark.parametrize("route", READING, ids=lambda it: f"{it.method} {it.path}")
async def test_every_bomb_is_a_bad_request_on_every_route(stage: Stage, route: Route) -> None:
    client = await stage.sign_up()
    for name, bomb in BOMBS.items():
        answer = await client.request(route.method, path_of(route), content=bomb, headers=JSON)
        assert answer.status_code in {400, 404, 413}, (name, answer.text)
        if answer.status_code == 404:
            assert route.body is Nothing or name == "nothing but spaces" or "{" in route.path


@pytest.mark.parametrize("route", READING, ids=lambda it: f"{it.method} {it.path}")
async def test_a_body_that_is_too_large_is_refused(make_stage: MakeStage, route: Route) -> None:
    stage = make_stage(ServerSettings(longest_body=1_000))
    client = await stage.sign_up()
    body = b'{"name": "' + b"x" * 1_000 + b'"}'

    async def in_pieces() -> Any:
        for _ in range(100):
            yield b" " * 100

    for content in (body, in_pieces()):
        answer = await client.request(route.method, path_of(route), content=content, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


async def test_a_mebibyte_is_the_most(stage: Stage) -> None:
    assert ServerSettings().longest_body == 1 << 20
    client = await stage.sign_up()
    answer = await client.post("/api/v1/jobs", content=b" " * ((1 << 20) + 1), headers=JSON)
    assert answer.status_code == 413


async def test_a_length_that_lies_does_not_help(stage: Stage) -> None:
    client = await stage.sign_up()
    for length in ("99999999999999999999", "-1", "x", "1048577"):
        headers = {**JSON, "content-length": length}
        answer = await client.post("/api/v1/jobs", content=b"{}", headers=headers)
        assert answer.status_code in {400, 413}


async def test_nothing_is_unpacked(stage: Stage) -> None:
    client = await stage.sign_up()
    packed = gzip.compress(b" " * 10_000_000)
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, identity"):
        headers = {**JSON, "content-encoding": encoding}
        answer = await client.post("/api/v1/jobs", content=packed, headers=headers)
        assert answer.status_code == 415


@pytest.mark.parametrize("levels", [63, 65, 1_000])
async def test_payloads_have_a_depth_and_a_size(stage: Stage, levels: int) -> None:
    client = await stage.sign_up()
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    job = msgspec.json.encode({"name": "x", "queue": "q", "payload": "?"})
    body = job.replace(b'"?"', b"[" * levels + b"1" + b"]" * levels)
    answer = await client.post("/api/v1/jobs", content=body, headers=JSON)
    assert answer.status_code == (201 if levels < 64 else 400)
    large = {"name": "x", "queue": "q", "payload": "x" * 70_000}
    assert (await client.post("/api/v1/jobs", json=large)).status_code == 400
