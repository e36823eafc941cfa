"""S7: no text of a user breaks a log line, forges one, or moves a terminal's cursor."""

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.security.conftest import Stage
from tests.unit.cli.conftest import RunRota

from rota.escape import _UNSAFE, escape
from rota.telemetry.logs import JsonFormatter

HOSTILE = [
    "\n",
    "\r\n",
    "\x00",
    "\x1b[2J\x1b[31m",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\u2028",
    "\u200b",
    "\ud800",
    "\U000e0041",
]


@given(st.text(st.characters() | st.sampled_from("".join(HOSTILE))))
def test_a_log_line_is_one_line_and_says_what_was_said(text: str) -> None:
    record = logging.LogRecord("rota", logging.INFO, "", 1, "%s", (text,), None)
    line = JsonFormatter().format(record)
    assert not _UNSAFE.search(line)
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == text


@given(st.text(st.characters() | st.sampled_from("".join(HOSTILE))))
def test_output_on_a_terminal_cannot_move_its_cursor(text: str) -> None:
    assert not _UNSAFE.search(escape(text))


@pytest.mark.parametrize("field", ["queue", "kind"])
@pytest.mark.parametrize("text", [*HOSTILE[:-2], "a b", "a/b", "a'b", "", "x" * 201])
async def test_queues_and_kinds_are_words(stage: Stage, field: str, text: str) -> None:
    client = await stage.sign_up()
    job = {"name": "x", "queue": "q", field: text}
    answer = await client.post("/api/v1/jobs", json=job)
    assert answer.status_code == 400
    assert answer.json()["details"]["field"] == field


@pytest.mark.parametrize("text", ["\n", "\x1b[31m", "\x00", "\u2028", "\x9b"])
async def test_names_hold_no_control_characters(stage: Stage, text: str) -> None:
    client = await stage.sign_up()
    answer = await client.post("/api/v1/jobs", json={"name": f"a{text}b", "queue": "q"})
    assert (answer.status_code, answer.json()["details"]["field"]) == (400, "name")


async def test_a_request_cannot_write_its_own_line_into_the_log(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setFormatter(JsonFormatter())
    client = await stage.sign_up()
    await stage.store.close()
    with caplog.at_level(logging.DEBUG, logger="rota"):
        forged = "%0A%7B%22level%22:%22error%22%7D"
        await client.get(f"/api/v1/jobs?queue=q{forged}", headers={"x-request-id": "a b"})
        await client.get("/api/v1/jobs")
    lines = [line for line in caplog.text.splitlines() if '"rota' in line]
    assert lines
    assert all(json.loads(line)["logger"].startswith("rota") for line in lines)


@pytest.mark.parametrize("sent", ["a b", "x" * 65, "a\tb", "<script>", "é"])
async def test_a_malformed_request_id_is_replaced(stage: Stage, sent: str) -> None:
    client = await stage.connect()
    answer = await client.get("/health/live", headers=[(b"x-request-id", sent.encode("latin-1"))])
    assert answer.headers["x-request-id"] != sent
    assert answer.headers["x-request-id"].isalnum()
    kept = await client.get("/health/live", headers={"x-request-id": "trace-7.a_b"})
    assert kept.headers["x-request-id"] == "trace-7.a_b"


def test_the_command_line_shows_hostile_names_written_out(rota: RunRota, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'rota.db'}"
    made = rota("jobs", "create", "harmless \u202eexe.txt", "--queue", "q", "--store", store)
    assert made.status == 0, made.err
    shown = rota("jobs", "list", "--store", store).out
    assert "\\u202e" in shown
    assert "\u202e" not in shown
