"""What is fed, and what may come of it."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import msgpack
from tests.verification.fleet.processes import make_scope

from rota.errors import CronCalculationError, DamagedJobError, RotaError
from rota.jobs import decode_job, encode_job
from rota.jobs.search import decode_cursor, encode_cursor
from rota.server import create_app
from rota.stores.memory import MemoryStore
from rota.stores.redis import rows
from rota.testing import VirtualClock, a_job
from rota.triggers.cron import parse_cron
from rota.triggers.rrule import parse_rrule

NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)
LONDON = ZoneInfo("Europe/London")

Target = Callable[[bytes], str]
"""Says what came of an input: a short text, the same for inputs of the same sort."""


def feed_cron(data: bytes) -> str:
    """Either dialect; two occurrences in a row, the second after the first."""
    text = data.decode("utf-8", "replace")
    told = []
    for dialect in ("posix", "extended"):
        try:
            cron = parse_cron(text, dialect)
        except RotaError as refusal:
            told.append(sort_of(refusal))
            continue
        try:
            first = cron.next_after(NOW, LONDON)
            require(first > NOW, "an occurrence is not after the instant that was asked about")
            require(cron.next_after(first, LONDON) > first, "occurrences do not go forward")
            require(cron.matches(first, LONDON), "it does not match its own occurrence")
        except CronCalculationError as error:
            told.append(without_values(str(error)))
            continue
        told.append("some time")
    return ", ".join(told)


def feed_rrule(data: bytes) -> str:
    """Some occurrences in a row, each after the one before."""
    text = data.decode("utf-8", "replace")
    try:
        rule = parse_rrule(text, zone=LONDON, start=None if "DTSTART" in text else NOW)
        at: datetime | None = NOW
        count = 0
        while count < 3 and at is not None:
            following = rule.next_after(at)
            require(following is None or following > at, "occurrences do not go forward")
            at, count = following, count + 1
    except RotaError as refusal:
        return sort_of(refusal)
    return f"{count} occurrences"


def feed_cursor(data: bytes) -> str:
    """A cursor that is accepted names a place, and the same place when it is written again."""
    text = data.decode("utf-8", "replace")
    try:
        place = decode_cursor(text)
    except RotaError as refusal:
        told = sort_of(refusal)
    else:
        require(decode_cursor(encode_cursor(*place)) == place, "another place")
        told = "a place"
    try:
        asyncio.run(MemoryStore().dump(text or None))
    except RotaError as refusal:
        return f"{told}, {sort_of(refusal)}"
    return f"{told}, a portion"


def feed_body(data: bytes) -> str:
    """A job over HTTP: created or refused with a reason, and never an error of the server."""
    status, body = asyncio.run(_post("/api/v1/jobs", data))
    require(status < 500, f"status {status}: {body!r}")
    answer = json.loads(body)
    require(status < 300 or ("code" in answer and "message" in answer), "a refusal without words")
    reason = answer.get("details", {}).get("reason", "") if status >= 400 else ""
    return f"{status} {without_values(str(reason))}"


def feed_record(data: bytes) -> str:
    """A stored job: read, and the same when it is written again, or damaged."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return "no JSON"
    try:
        job = decode_job(record)
    except DamagedJobError as damage:
        return without_values(str(damage))
    require(decode_job(json.loads(json.dumps(encode_job(job)))) == job, "another job")
    return "a job"


def feed_redis(data: bytes) -> str:
    """What a Lua script returns for a job: its head and its body."""
    head, _, body = data.partition(b"\n")
    try:
        rows.decode_job("01890a5d-ac96-774b-bcce-b302099a8057", head, body)
    except DamagedJobError as damage:
        return without_values(str(damage))
    return "a job"


def feed_arguments(data: bytes) -> str:
    """A job as arguments of a Lua script, whatever its texts: the same job comes back."""
    texts = [part.decode("utf-8", "replace").replace("\0", "") or "x" for part in data.split(b"\n")]
    tenant, queue, kind, worker, key = (texts * 5)[:5]
    job = a_job(
        tenant=tenant,
        queue=queue,
        kind=kind,
        idempotency_key=key,
        payload={"text": worker},
        created_at=NOW,
    )
    head = rows.pack_head(rows.encode_head(job))
    require(msgpack.decode(head) == rows.encode_head(job), "the head is another one")
    again = rows.decode_job(job.id, head, rows.encode_body(job))
    require(again == job, f"another job: {again}")
    return "the same"


async def _post(path: str, body: bytes) -> tuple[int, bytes]:
    app = create_app(MemoryStore(), clock=VirtualClock(NOW))
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if not messages:
            await asyncio.get_running_loop().create_future()
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(make_scope(path, {}), receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


class Unsound(Exception):  # noqa: N818 - what a target finds is not an error of its input
    """The result of an input does not hold together."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Unsound(message)


def sort_of(refusal: RotaError) -> str:
    return f"{type(refusal).__name__} {without_values(str(refusal))}"


def without_values(text: str) -> str:
    """The words of a message that are the same for all values."""
    words = [word for word in text.split() if word.isascii() and word.strip(".,:;").isalpha()]
    return " ".join(words[:8])


TARGETS: dict[str, Target] = {
    "cron": feed_cron,
    "rrule": feed_rrule,
    "cursor": feed_cursor,
    "body": feed_body,
    "record": feed_record,
    "redis": feed_redis,
    "arguments": feed_arguments,
}
