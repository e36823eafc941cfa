"""Names and texts are kept and compared as they are, up to the limits that the store promises."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.servers.mariadb import execute, open_mysql

from rota.errors import StoreUnavailableError
from rota.jobs import Failed, JobFilter, RetryPolicy, decide_outcome
from rota.stores.mysql.store import MysqlStore
from rota.stores.protocol import DocumentWrite, LeaseRequest, UnreadableJob
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, 0, 0, 123_457, tzinfo=UTC)
ALIKE = ("key", "key ", "KEY", "kéy", "key\t", "key\u0301", "😀", "😀 ", "%s", "%(ids)s", "\\", "'")
"""Names that some collation holds for equal, and names that some quoting breaks."""

LONGEST = "😀" * 255


def take(limit: int = 100) -> LeaseRequest:
    return LeaseRequest(worker="w", limit=limit, lease_for=timedelta(minutes=1))


async def test_names_that_look_alike_are_different_documents(store: MysqlStore) -> None:
    writes = [DocumentWrite("c", key, None, key.encode()) for key in (*ALIKE, LONGEST)]
    assert await store.write_each(writes) == [1] * len(writes)
    found = [document async for page in store.scan("c") for document in page]
    assert [each.key for each in found] == sorted((*ALIKE, LONGEST))
    assert all(each.body == each.key.encode() for each in found)
    assert [*await store.read("c", ["key "])] == ["key "]
    assert await store.read("C", ["key"]) == {}


async def test_tenants_queues_and_keys_that_look_alike_are_different(store: MysqlStore) -> None:
    names = (*ALIKE, LONGEST)
    jobs = [
        a_job(tenant=name, queue=name, kind=name, idempotency_key=name, due_at=NOW)
        for name in names
    ]
    inserted = await store.insert(jobs, NOW)
    assert not any(each.is_existing for each in inserted)
    for name in names:
        page = await store.find(name, JobFilter(queue=name))
        assert [job.tenant for job in page.items] == [name]
    assert {job.tenant for job in await store.lease(take(), NOW)} == set(names)
    again = await store.insert([replace(job, id=a_job().id) for job in jobs], NOW)
    assert [each.job.id for each in again] == [job.id for job in jobs]


async def test_any_text_survives_an_error_and_a_payload(store: MysqlStore) -> None:
    strange = "NUL \0, quotes ' \" ` \\, % %s, 😀, \u2028, \r\n, \x1a"
    await store.insert([a_job(payload={"text": strange}, due_at=NOW)], NOW)
    (job,) = await store.lease(take(), NOW)
    assert job.payload == {"text": strange}
    policy = RetryPolicy(max_attempts=1)
    await store.amend(job.tenant, job.id, {"retry_policy": {"max_attempts": 1}}, NOW)
    failed = decide_outcome(replace(job, retry_policy=policy), Failed(strange), NOW)
    await store.apply([failed], NOW)
    assert (await store.get(job.tenant, [job.id]))[job.id].last_error == failed.job.last_error
    (attempt,) = await store.attempts(job.tenant, job.id)
    assert attempt.error == strange.replace("\0", "\\x00")  # no store has to keep NUL there


async def test_instants_are_exact_to_the_microsecond(store: MysqlStore) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    last = datetime.max.replace(tzinfo=UTC)
    instants = (first, NOW, NOW + timedelta(microseconds=1), last)
    jobs = [a_job(due_at=each, created_at=each, updated_at=each) for each in instants]
    await store.insert(jobs, NOW)
    found = await store.get("default", [job.id for job in jobs])
    assert tuple(found[job.id].due_at for job in jobs) == instants
    assert len(await store.lease(take(), NOW)) == 2
    assert await store.next_due_at(NOW) == NOW + timedelta(microseconds=1)


async def test_bodies_larger_than_a_statement_are_written_in_parts(store: MysqlStore) -> None:
    bodies = {f"key {number}": bytes(range(256)) * 4096 * number for number in range(1, 6)}
    writes = [DocumentWrite("c", key, None, body) for key, body in bodies.items()]
    await store.write_all(iter(writes))
    found = await store.read("c", list(bodies))
    assert {key: document.body for key, document in found.items()} == bodies


async def test_a_body_larger_than_the_server_accepts_is_refused_before_sending(
    mysql_url: str,
) -> None:
    async with await open_mysql(mysql_url) as store:
        most = store._database.most_bytes
        write = DocumentWrite("c", "k", None, b"x" * most)
        with pytest.raises(StoreUnavailableError, match="raise max_allowed_packet") as caught:
            await store.write_each([write])
        assert caught.value.details["outcome"] == "nothing was written"
        assert await store.write_each([write._replace(body=b"y")]) == [1]


async def test_a_job_whose_name_is_not_utf8_is_set_aside_and_hides_no_other(
    store: MysqlStore, mysql_url: str
) -> None:
    damaged, sound = a_job(due_at=NOW, priority=9), a_job(due_at=NOW)
    await store.insert([damaged, sound], NOW)
    execute(mysql_url, f"UPDATE rota_jobs SET kind = X'FF' WHERE id = '{damaged.id}'", "COMMIT")  # noqa: S608
    assert [job.id for job in (await store.find("default")).items] == [sound.id]
    assert [job.id for job in await store.lease(take(), NOW)] == [sound.id]
    assert await store.count("default") == 1
    assert [*await store.get("default", [damaged.id, sound.id])] == [sound.id]
    (record,) = [one for one in (await store.dump()).records if isinstance(one, UnreadableJob)]
    assert record.job_id == damaged.id
    assert b"not UTF-8" in record.content


@pytest.mark.parametrize("column", ["tenant", "queue", "idempotency_key"])
async def test_damage_in_any_name_stops_no_lease(
    store: MysqlStore, mysql_url: str, column: str
) -> None:
    damaged = a_job(due_at=NOW, priority=9, idempotency_key="order-7")
    sound = a_job(due_at=NOW)
    await store.insert([damaged, sound], NOW)
    change = f"UPDATE rota_jobs SET {column} = X'61FF' WHERE id = '{damaged.id}'"  # noqa: S608
    execute(mysql_url, change, "COMMIT")
    assert await store.next_due_at(NOW) == NOW
    assert [job.id for job in await store.lease(take(), NOW)] == [sound.id]
    (record,) = [one for one in (await store.dump()).records if isinstance(one, UnreadableJob)]
    assert record.job_id == damaged.id
    assert b"a\\\\xff" in record.content
    assert await store.lease(take(), NOW) == []
