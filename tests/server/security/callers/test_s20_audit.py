"""S20: who did what is written down before it is done, and stays when the job is gone."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.architecture import source_tree
from tests.server.security.conftest import NOW, Stage
from tests.unit.cli.conftest import RunRota

from rota.errors import StoreError, StoreUnavailableError
from rota.ops.tokens import TenantTokens, TokenRequest
from rota.policy.audit import AuditEntry
from rota.rail import Rail, read_audit
from rota.rail.jobs import RailContext, RailSettings
from rota.runtime.wiring import open_store
from rota.stores.protocol import DocumentWrite


async def entries_of(store: Any, tenant: str = "ours") -> list[AuditEntry]:
    return [entry async for entry in read_audit(store, tenant)]


async def test_the_record_survives_the_job(stage: Stage) -> None:
    rail = Rail(stage.store, "ours", clock=stage.clock)
    job_id = await rail.schedule_once("work", {}, run_at=NOW)
    await rail.cancel(job_id, who="ada", why="a mistake")
    client = await stage.sign_up()
    assert (await client.delete(f"/api/v1/jobs/{job_id}")).status_code == 204
    entry, deletion = sorted(await entries_of(stage.store), key=lambda it: it.action)
    assert (entry.who, entry.why, entry.job_ids) == ("ada", "a mistake", (job_id,))
    assert (deletion.action, deletion.job_ids) == ("delete", (job_id,))


async def test_a_deletion_is_recorded_and_a_refused_one_is_not(stage: Stage) -> None:
    client = await stage.connect(await stage.issue(name="ada's laptop"))
    wish: dict[str, Any] = {"name": "a", "queue": "q"}
    first = (await client.post("/api/v1/jobs", json=wish)).json()
    wish["dependencies"] = [first["id"]]
    second = (await client.post("/api/v1/jobs", json=wish)).json()
    assert (await client.delete(f"/api/v1/jobs/{first['id']}")).status_code == 409
    assert (await client.delete(f"/api/v1/jobs/{second['id']}")).status_code == 204
    assert (await client.delete(f"/api/v1/jobs/{second['id']}")).status_code == 404
    (entry,) = await entries_of(stage.store)
    assert (entry.action, entry.who) == ("delete", "ada's laptop")
    assert (entry.job_ids, entry.details) == ((second["id"],), {"name": "a", "status": "PENDING"})


def test_nothing_writes_over_an_entry_and_only_retention_removes_one() -> None:
    """One module names the collection for writing: it adds what was not there, and prunes."""
    users = [
        module.path for module in source_tree.source_modules() if "collection_of(" in module.text
    ]
    elsewhere = ("src/rota/server/", "src/rota/stores/")  # these only read, or use the same name
    writing = [path for path in users if not path.startswith(elsewhere)]
    assert writing == ["src/rota/policy/audit.py"]
    text = (source_tree.ROOT / "src/rota/policy/audit.py").read_text(encoding="utf-8")
    adding, pruning = text.split("async def prune_audit(")
    assert adding.count("DocumentWrite(collection") == 1
    assert "DocumentWrite(collection, key, None, body)" in adding
    assert "DocumentWrite(" not in pruning
    assert "remove_documents(store, collection, is_old)" in pruning


async def test_the_entry_is_written_before_the_act(stage: Stage) -> None:
    """Where it cannot be written, nothing is done."""

    class Unwritable(type(stage.store)):  # type: ignore[misc]  # a store of the same kind
        async def write_each(self, writes: Any) -> Any:
            kept = list(writes)
            if any(isinstance(it, DocumentWrite) and it.collection == "audit:ours" for it in kept):
                raise StoreUnavailableError("no room for records")
            return await super().write_each(kept)

    store = Unwritable()
    around = RailContext(store, "ours", stage.clock, RailSettings(), lambda _: 7)
    with pytest.raises(StoreError):
        await TenantTokens(around).issue(TokenRequest("x", ["read"]), "ada")
    assert [page async for page in store.scan("tokens")] == []


async def test_actions_over_the_api_are_audited_under_the_tokens_name(stage: Stage) -> None:
    client = await stage.connect(await stage.issue(name="ada's laptop"))
    issued = (await client.post("/api/v1/tokens", json={"name": "x", "scopes": ["read"]})).json()
    await client.delete(f"/api/v1/tokens/{issued['id']}")
    entries = await entries_of(stage.store)
    assert sorted(entry.action for entry in entries) == ["token.issue", "token.revoke"]
    assert {entry.who for entry in entries} == {"ada's laptop"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rota.db'}"


def shape_of(entry: AuditEntry) -> dict[str, Any]:
    """An entry without what is different each time."""
    answer = msgspec.to_builtins(entry)
    answer["details"] = sorted(answer["details"])
    return {name: answer[name] for name in ("action", "details") if name in answer}


def test_the_command_line_leaves_the_same_record_as_the_api(
    rota: RunRota, url: str, tmp_path: Path
) -> None:
    made = rota("tokens", "create", "x", "--scope", "read", "--store", url, "--json").document
    rota("tokens", "revoke", made["id"], "--store", url)

    async def compare() -> None:
        stage = Stage()
        client = await stage.sign_up()
        wish = {"name": "x", "scopes": ["read"]}
        issued = (await client.post("/api/v1/tokens", json=wish)).json()
        await client.delete(f"/api/v1/tokens/{issued['id']}")
        async with await open_store(url) as store:
            by_command = [shape_of(entry) for entry in await entries_of(store, "default")]
        by_api = [shape_of(entry) for entry in await entries_of(stage.store)]
        assert sorted(by_command, key=str) == sorted(by_api, key=str)
        await stage.close()

    asyncio.run(compare())
    assert (tmp_path / "rota.db").exists()
