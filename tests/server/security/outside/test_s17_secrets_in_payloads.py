"""S17: the handler sees the secrets in a payload; readers of the job do not."""

import logging
from pathlib import Path

import httpx2
import pytest
from tests.server.security.conftest import ORIGIN, MakeStage, Stage
from tests.unit.cli.conftest import RunRota

from rota.auth.masking import SECRET_WORDS
from rota.server import GuardSettings, ServerSettings

SECRET = "hunter2-hunter2"  # noqa: S105 - not a real one
PAYLOAD = {
    "to": "somebody",
    "password": SECRET,
    "headers": {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET},
    "nested": [{"client_secret": {"value": SECRET}}],
    "url": f"https://ada:{SECRET}@example.com/hook",
}
JOB = {"name": "x", "queue": "q", "payload": PAYLOAD}


async def show(stage: Stage, job_id: str) -> httpx2.Response:
    browser = await stage.connect()
    browser.headers["origin"] = ORIGIN
    await browser.post("/admin/sign-in", data={"token": await stage.issue()})
    return await browser.get(f"/admin/jobs/{job_id}")


async def test_the_page_of_a_job_masks_what_is_secret(stage: Stage) -> None:
    client = await stage.sign_up()
    made = (await client.post("/api/v1/jobs", json=JOB)).json()
    page = await show(stage, made["id"])
    assert page.status_code == 200
    assert SECRET not in page.text
    assert "(hidden)" in page.text
    assert "somebody" in page.text


async def test_the_handler_and_the_api_get_all_of_it(stage: Stage) -> None:
    """Masking is for display: a worker in any language must be able to do the work."""
    client = await stage.sign_up()
    made = (await client.post("/api/v1/jobs", json=JOB)).json()
    assert made["payload"] == PAYLOAD


async def test_lists_show_no_payload_at_all(stage: Stage) -> None:
    client = await stage.sign_up()
    await client.post("/api/v1/jobs", json=JOB)
    browser = await stage.connect()
    browser.headers["origin"] = ORIGIN
    await browser.post("/admin/sign-in", data={"token": await stage.issue()})
    for page in ("", "/jobs", "/schedules", "/dead-letters", "/audit"):
        assert SECRET not in (await browser.get(f"/admin{page}")).text


async def test_an_operator_chooses_which_names_are_secret(make_stage: MakeStage) -> None:
    words = (*SECRET_WORDS, "to")
    stage = make_stage(ServerSettings(guarding=GuardSettings(masked_words=words)))
    client = await stage.sign_up()
    made = (await client.post("/api/v1/jobs", json=JOB)).json()
    assert "somebody" not in (await show(stage, made["id"])).text


def test_the_command_line_masks_it_too(rota: RunRota, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'rota.db'}"
    payload = f'{{"password": "{SECRET}", "to": "somebody"}}'
    made = rota("jobs", "create", "x", "--payload", payload, "--store", store, "--json")
    shown = rota("jobs", "show", made.document["id"], "--store", store)
    assert SECRET not in shown.out
    assert "somebody" in shown.out


async def test_no_payload_is_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = await stage.sign_up()
    await client.post("/api/v1/jobs", json=JOB)
    await client.post("/api/v1/jobs", json={**JOB, "queue": "not a word"})
    await stage.store.close()
    await client.post("/api/v1/jobs", json=JOB)
    assert SECRET not in caplog.text


async def test_a_refusal_does_not_repeat_the_payload(stage: Stage) -> None:
    client = await stage.sign_up()
    for body in ({**JOB, "queue": "no word"}, {**JOB, "x": 1}, {**JOB, "payload": [SECRET] * 9999}):
        answer = await client.post("/api/v1/jobs", json=body)
        assert answer.status_code == 400
        assert SECRET not in answer.text
