"""Requests over the wire, and what their answers mean."""

import asyncio
import json
from datetime import timedelta

import pytest
from tests.unit.kinds.http.asker import NOW, SECRET, Asker, aged
from tests.unit.kinds.http.receiver import HOST, Receiver

from rota.errors import DeliveryError, SecretNotFoundError
from rota.jobs import JobStatus
from rota.kinds import verify
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job
from rota.worker import Discard, Snooze, Worker

NAME = "hooks"


def answer(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Answer", *headers, "Content-Length: 0", "", ""]
    return "\r\n".join(lines).encode()


async def test_a_request_says_what_was_asked_and_by_which_job(plain: Receiver) -> None:
    job = a_job(kind="http.request", tenant="default", idempotency_key="order-7é")
    assert (
        await Asker(plain.port).ask(
            job=job, method="PUT", json={"order": 7}, headers={"X-Shop": "corner"}
        )
        is None
    )
    (received,) = plain.received
    assert (received.method, received.target) == ("PUT", "/hook")
    assert json.loads(received.body) == {"order": 7}
    assert received.headers["Host"] == f"{HOST}:{plain.port}"
    assert received.headers["Content-Type"] == "application/json"
    assert received.headers["X-Shop"] == "corner"
    assert received.headers["Rota-Job-Id"] == job.id
    assert received.headers["Rota-Attempt"] == "1"
    assert received.headers["Idempotency-Key"] == "http.request:order-7\\xe9:"
    assert "Rota-Signature" not in received.headers


async def test_a_request_is_signed_with_the_secret_that_is_named(plain: Receiver) -> None:
    await Asker(plain.port).ask(body="ünïcode", secret=NAME)
    (received,) = plain.received
    assert received.body == "ünïcode".encode()
    assert verify(received.body, received.headers["Rota-Signature"], [SECRET], NOW).at == NOW
    assert SECRET not in str(received)


async def test_a_secret_that_is_not_there_sends_nothing_and_may_come(plain: Receiver) -> None:
    with pytest.raises(SecretNotFoundError):
        await Asker(plain.port).ask(secret="o" + NAME)
    assert plain.connection_count == 0


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_success_is_success(plain: Receiver, status: int) -> None:
    plain.head = answer(status)
    assert await Asker(plain.port).ask() is None


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_a_temporary_failure_is_retried(plain: Receiver, status: int) -> None:
    plain.head = answer(status)
    with pytest.raises(DeliveryError) as caught:
        await Asker(plain.port).ask()
    assert caught.value.status == status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 422])
async def test_a_permanent_failure_is_given_up(plain: Receiver, status: int) -> None:
    plain.head = answer(status)
    assert await Asker(plain.port).ask() == Discard(f"answered {status}")


@pytest.mark.parametrize(
    ("said", "for_"),
    [
        ("7", timedelta(seconds=7)),
        ("0", timedelta(seconds=1)),
        ("999999", timedelta(hours=1)),
        ("Fri, 01 May 2026 12:00:30 GMT", timedelta(seconds=30)),
        ("Fri, 01 May 2026 11:00:00 GMT", timedelta(seconds=1)),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_a_retry_after_header_is_respected(
    plain: Receiver, status: int, said: str, for_: timedelta
) -> None:
    plain.head = answer(status, f"Retry-After: {said}")
    assert await Asker(plain.port).ask() == Snooze(for_)


@pytest.mark.parametrize("said", ["soon", "-1", "", "1e9", "Fri, 99 May 2026 12:00:30 GMT"])
async def test_an_invalid_time_is_none(plain: Receiver, said: str) -> None:
    plain.head = answer(503, f"Retry-After: {said}")
    with pytest.raises(DeliveryError):
        await Asker(plain.port).ask()


async def test_a_job_cannot_be_deferred_forever(plain: Receiver) -> None:
    plain.head = answer(503, "Retry-After: 3600")
    assert await Asker(plain.port).ask(job=aged(timedelta(hours=23))) == Snooze(timedelta(hours=1))
    with pytest.raises(DeliveryError):
        await Asker(plain.port).ask(job=aged(timedelta(hours=24)))


async def test_only_what_is_expected_is_success(plain: Receiver) -> None:
    plain.head = answer(409)
    assert await Asker(plain.port).ask(expected=[201, 409]) is None
    plain.head = answer(200)
    with pytest.raises(DeliveryError):
        await Asker(plain.port).ask(expected=[201, 409])


async def test_a_failed_connection_may_be_retried(plain: Receiver) -> None:
    asker = Asker(plain.port)
    asker.answers = [["127.0.0.9"]]
    with pytest.raises(DeliveryError, match="cannot be connected to") as caught:
        await asker.ask()
    assert "127.0.0.9" not in caught.value.message


async def test_a_worker_keeps_nothing_of_an_answer(plain: Receiver) -> None:
    found = b"what only this host may read"

    async def tell(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 %b\r\nX-Told: %b\r\n\r\n%b" % (found, found, found))
        await writer.drain()

    plain.reply = tell
    clock, store = VirtualClock(NOW), MemoryStore()
    worker = Worker(store, {"http.request": Asker(plain.port).requests}, clock=clock)
    url = f"http://{HOST}:{plain.port}/"
    job = a_job(kind="http.request", tenant="default", payload={"url": url}, due_at=NOW)
    await store.insert([job], NOW)
    (settled,) = await worker.run_once()
    assert settled.job.status is JobStatus.READY
    assert settled.job.last_error == "DeliveryError: answered 500"
    kept = (await store.get("default", [job.id]), await store.attempts("default", job.id))
    assert found.decode() not in str(kept)
