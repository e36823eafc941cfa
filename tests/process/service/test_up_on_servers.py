"""``rota up`` on each server that can keep a store, from the first token to Ctrl-C."""

import json
import signal
from pathlib import Path

import pytest
from tests.process.fleet import wait_for
from tests.process.service.up_process import Up, run_rota
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.process

GREETING = {
    "name": "greet",
    "queue": "default",
    "kind": "log.message",
    "payload": {"message": "good morning"},
}
BRIEF = """
import time

def work(context):
    print("brief began", flush=True)
    time.sleep(1)
    print("brief ended", flush=True)

handlers = {"brief": work}
"""


@pytest.fixture(
    params=["postgres_url", "mysql_url", "own_redis", "mongo_url"],
    ids=["postgres", "mysql", "redis", "mongo"],
)
def server_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty store, as an operator would write it."""
    found = request.getfixturevalue(request.param)
    return found.tcp_url if isinstance(found, RedisServer) else str(found)


def test_all_of_it_runs_on_a_server_and_ends_when_it_is_interrupted(
    tmp_path: Path, server_url: str
) -> None:
    (tmp_path / "brief_jobs.py").write_text(BRIEF, encoding="utf-8")
    with Up(tmp_path, "up", "--store", server_url, "--handlers", "brief_jobs:handlers") as up:
        token = up.read_token()
        status, greeting = up.ask("/api/v1/jobs", GREETING)
        assert status == 201
        up.wait_for("good morning")
        up.wait_for(f"log.message {greeting['id']} succeeded")
        _, overview = up.ask("/api/v1/overview")
        assert overview["counts"]["COMPLETED"] >= 1  # a new store has a first job of its own
        wait_for(lambda: len(up.ask("/api/v1/workers")[1]["items"]) == 1, "a worker that is shown")
        assert up.ask("/admin")[0] == 200
        asked = run_rota(tmp_path, "jobs", "show", greeting["id"], "--json", ROTA_STORE=server_url)
        assert json.loads(asked.stdout)["status"] == "COMPLETED"
        over_http = run_rota(
            tmp_path, "jobs", "show", greeting["id"], "--json", ROTA_URL=up.url, ROTA_TOKEN=token
        )
        assert over_http.stdout == asked.stdout
        _, brief = up.ask("/api/v1/jobs", {"name": "brief", "queue": "default"})
        up.wait_for("brief began")
        up.process.send_signal(signal.SIGINT)
        up.wait_for("Stopping")
        up.wait_for("brief ended")
        assert up.wait() == 0
        assert not any("Traceback" in line for line in up.printed)
    shown = run_rota(tmp_path, "jobs", "list", "--json", ROTA_STORE=server_url)
    statuses = {it["id"]: it["status"] for it in json.loads(shown.stdout)["items"]}
    assert (statuses[greeting["id"]], statuses[brief["id"]]) == ("COMPLETED", "COMPLETED")
