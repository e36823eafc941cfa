"""S21: every refusal is logged and counted, with its caller and route, and without its secret."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from tests.server.security.conftest import MakeStage, Stage

from rota.auth.caller import Scope
from rota.auth.tokens import take_fingerprint
from rota.policy.limits import Rate
from rota.server import GuardSettings, ServerSettings
from rota.telemetry.logs import JsonFormatter

JOBS = "/api/v1/jobs"
ADDRESS = "192.0.2.7"
SLOW = ServerSettings(
    guarding=GuardSettings(
        token_rate=Rate(count=1, per=timedelta(minutes=1), burst=1),
        stranger_rate=Rate(count=1, per=timedelta(minutes=1), burst=1),
    )
)


class Log:
    """The refusals in the JSON log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger="rota")

    @property
    def text(self) -> str:
        return "\n".join(JsonFormatter().format(record) for record in self._caplog.records)

    @property
    def refusals(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in lines if line.get("event") == "RequestRefused"]

    def last(self) -> dict[str, Any]:
        return self.refusals[-1]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


async def count_refusals(stage: Stage) -> dict[str, float]:
    """The counter by reason, as an operator scrapes it."""
    admin = await stage.sign_up("operators")
    shown = (await admin.get("/metrics")).text
    lines = [line for line in shown.splitlines() if line.startswith("rota_requests_refused_total")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


async def test_an_unknown_token_is_logged_by_its_id_only(stage: Stage, log: Log) -> None:
    issued = await stage.book.issue("ours", [Scope.READ], "billing")
    await stage.book.revoke(issued.id)
    client = await stage.connect(issued.secret.reveal(), address=ADDRESS)
    answer = await client.get(f"{JOBS}/0?x=secret-in-a-query", headers={"x-request-id": "r-1"})
    assert answer.status_code == 401
    line = log.last()
    assert (line["level"], line["reason"], line["status"]) == ("warning", "unauthorized", 401)
    assert (line["method"], line["route"]) == ("GET", "/api/v1/jobs/{job_id}")
    assert (line["remote"], line["requestId"]) == (ADDRESS, "r-1")
    assert (line["caller"], line["tenant"]) == (None, None)
    assert line["tokenId"] == issued.id == take_fingerprint(issued.secret.reveal()).id
    assert issued.secret.reveal() not in log.text
    assert "secret-in-a-query" not in log.text


async def test_a_malformed_token_is_not_logged(stage: Stage, log: Log) -> None:
    client = await stage.connect("hunter2")
    await client.get(JOBS)
    assert log.last()["tokenId"] is None
    assert "hunter2" not in log.text


async def test_a_missing_scope_is_logged_with_the_caller(stage: Stage, log: Log) -> None:
    token = await stage.issue(scopes=[Scope.READ], name="billing")
    client = await stage.connect(token, address=ADDRESS)
    assert (await client.post(JOBS, json={})).status_code == 403
    line = log.last()
    assert (line["reason"], line["caller"], line["tenant"]) == ("forbidden", "billing", "ours")
    assert (line["method"], line["route"], line["remote"]) == ("POST", JOBS, ADDRESS)
    assert token not in log.text


async def test_a_failed_sign_in_is_logged_without_what_was_typed(stage: Stage, log: Log) -> None:
    client = await stage.connect(address=ADDRESS)
    await client.post("/admin/sign-in", data={"token": "hunter2"})
    line = log.last()
    assert (line["reason"], line["route"]) == ("sign_in_failed", "/admin/sign-in")
    assert line["remote"] == ADDRESS
    assert "hunter2" not in log.text


async def test_a_session_that_is_over_is_logged_and_a_first_visit_is_not(
    stage: Stage, log: Log
) -> None:
    client = await stage.connect()
    await client.get("/admin")
    assert log.refusals == []
    await client.get("/admin/jobs", headers={"cookie": "rota_session=forged"})
    assert (log.last()["reason"], log.last()["route"]) == ("unauthorized", "/admin/jobs")
    assert "forged" not in log.text


async def test_a_change_from_another_site_is_logged(stage: Stage, log: Log) -> None:
    client = await stage.connect(address=ADDRESS)
    await client.post("/admin/act", headers={"origin": "https://evil.example"})
    line = log.last()
    assert (line["reason"], line["status"], line["remote"]) == ("cross_site", 403, ADDRESS)
    assert line["route"] == "/admin/act"


async def test_a_foreign_host_name_is_logged(make_stage: MakeStage, log: Log) -> None:
    stage = make_stage(ServerSettings(guarding=GuardSettings(hosts=("127.0.0.1",))))
    client = await stage.connect(origin="http://evil.example")
    await client.get(JOBS)
    assert log.last()["reason"] == "unknown_host"


async def test_a_rate_limited_caller_is_logged_once_a_second(
    make_stage: MakeStage, log: Log
) -> None:
    stage = make_stage(SLOW)
    client = await stage.connect(await stage.issue(name="billing"), address=ADDRESS)
    for _ in range(5):
        await client.get(JOBS)
    assert [line["reason"] for line in log.refusals] == ["rate_limited"]
    assert (log.last()["caller"], log.last()["status"]) == ("billing", 429)
    await stage.clock.advance(timedelta(seconds=1))
    await client.get(JOBS)
    assert len(log.refusals) == 2
    assert (await count_refusals(stage))["rate_limited"] == 5


async def test_a_rate_limited_stranger_is_logged(make_stage: MakeStage, log: Log) -> None:
    stage = make_stage(SLOW)
    client = await stage.connect(address=ADDRESS)
    for _ in range(3):
        await client.get(JOBS)
    assert [line["reason"] for line in log.refusals] == ["unauthorized", "rate_limited"]


async def test_every_refusal_is_counted_by_reason(stage: Stage, log: Log) -> None:
    stranger, reader = (
        await stage.connect(),
        await stage.connect(await stage.issue(scopes=[Scope.READ])),
    )
    await stranger.get(JOBS)
    await reader.post(JOBS, json={})
    await reader.post(JOBS, json={})
    await stranger.post("/admin/sign-in", data={"token": "x"})
    assert await count_refusals(stage) == {"unauthorized": 1, "forbidden": 2, "sign_in_failed": 1}
    assert len(log.refusals) == 4


async def test_a_path_outside_every_route_is_cut_and_cannot_forge_a_line(
    stage: Stage, log: Log
) -> None:
    client = await stage.connect()
    path = "/%0a" + "x" * 1_000
    await client.post(path, headers={"sec-fetch-site": "cross-site"})
    assert len(log.text.splitlines()) == 1
    assert len(log.last()["route"]) <= 200
