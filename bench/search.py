"""Searches among a million jobs: how long they take, and what their index costs.

    python bench/search.py                          # all four stores; about half an hour
    python bench/search.py --jobs 100000 --store sqlite --store redis

Each store is empty at first, on a server of its own, and is given jobs of a month: 97 % completed,
2 % failed, 1 % due later. Then the index is built as a server builds it, without its pauses. Every
question is asked with other values each time, one after another, and timed as a caller sees it.

An index does not depend on the store. With ``--now`` and ``--index`` several runs share one.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec
from bench.queue_contest.contestants import StoreKind
from bench.queue_contest.harness.places import Ground
from rich.console import Console
from rich.table import Table

from rota import open_store
from rota.clock.system import SystemClock
from rota.jobs import Completion, Ending, Job, JobStatus, make_job_id
from rota.ops.job_counts import count_states
from rota.ops.search import search_jobs, suggest
from rota.search.index import BLOCKS, HEADS, OPEN_JOBS, STATES
from rota.search.indexer import SearchIndexer
from rota.search.query import parse_query
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptDocument, KeptJob

TENANT = "default"
MONTH = timedelta(days=30)
LOADED_AT_ONCE = 2_000
COPIED_AT_ONCE = 100
COLLECTIONS = (STATES, HEADS, BLOCKS, OPEN_JOBS)
VERBS = ("Send", "Render", "Import", "Charge", "Check", "Archive", "Notify", "Refund")
THINGS = ("receipt", "welcome mail", "invoice", "thumbnail", "ledger", "catalogue", "reminder")
COUNTRIES = ("de", "fr", "it", "es", "pt", "nl", "be", "at", "ch", "pl", "cz", "se", "no", "fi")
ERRORS = (
    "ConnectTimeout: host mail.example is away",
    "KeyError: 'customer'",
    "RateLimited: slow down",
    "CardDeclined: insufficient funds",
    "ValueError: not a number",
)


class Question(NamedTuple):
    """A kind of question, and a text that differs each time."""

    name: str
    make_text: Callable[[random.Random, "Corpus"], str]
    ask: Callable[[OpenStore, str], Awaitable[Any]]


class Corpus(NamedTuple):
    """How many jobs there are, and some of their ids."""

    job_count: int
    ids: Sequence[str]


def make_jobs(count: int, now: datetime) -> Iterator[Job]:
    """Jobs of a month, the oldest first."""
    chance = random.Random(1)
    for number in range(count):
        created_at = now - MONTH + (MONTH - timedelta(minutes=5)) * number / count
        yield make_one(number, created_at, chance)


def make_one(number: int, created_at: datetime, chance: random.Random) -> Job:
    thing, verb = chance.choice(THINGS), chance.choice(VERBS)
    fields: dict[str, Any] = {}
    drawn = chance.random()
    if drawn < 0.97:
        status, ended_at = JobStatus.COMPLETED, created_at + timedelta(seconds=1 + drawn)
        started_at = created_at + timedelta(seconds=1)
        fields["completion"] = Completion(worker="w1", started_at=started_at, ended_at=ended_at)
    elif drawn < 0.99:
        status, ended_at = JobStatus.FAILED, created_at + timedelta(minutes=1)
        fields |= {"last_error": chance.choice(ERRORS), "ending": Ending.EXHAUSTED}
    else:
        status, ended_at = JobStatus.READY, created_at
    return Job(
        id=make_job_id(created_at, chance.getrandbits(62)),
        queue=f"queue{number % 8}",
        name=f"{verb} {thing} {number}",
        kind=f"{thing.split()[0]}.{verb.lower()}",
        payload={
            "order": number,
            "customer": {"id": chance.randrange(50_000), "country": chance.choice(COUNTRIES)},
            "lines": [{"sku": f"s{chance.randrange(2_000)}"} for _ in range(2)],
        },
        status=status,
        due_at=created_at + (timedelta(days=60) if status is JobStatus.READY else timedelta(0)),
        idempotency_key=f"order-{number}" if number % 4 == 0 else None,
        created_at=created_at,
        updated_at=ended_at,
        **fields,
    )


async def ask_page(store: OpenStore, text: str) -> Any:
    return await search_jobs(store, TENANT, parse_query(text), limit=50)


async def ask_counts(store: OpenStore, text: str) -> Any:
    return await count_states(store, TENANT, parse_query(text), datetime.now(UTC))


async def ask_suggestions(store: OpenStore, text: str) -> Any:
    return await suggest(store, TENANT, text)


def _number(chance: random.Random, corpus: Corpus) -> int:
    return chance.randrange(corpus.job_count)


QUESTIONS = (
    Question("payload.order=7: one match", lambda r, c: f"payload.order={_number(r, c)}", ask_page),
    Question("receipt 1234: a name", lambda r, c: f"receipt {_number(r, c)}", ask_page),
    Question("a beginning of an id", lambda r, c: r.choice(c.ids)[:18], ask_page),
    Question("key:order-4", lambda r, c: f"key:order-{_number(r, c) // 4 * 4}", ask_page),
    Question("a common word", lambda r, _: r.choice(THINGS).split()[0], ask_page),
    Question("kind and country", lambda r, _: _kind_and_country(r), ask_page),
    Question(
        "customer and kind",
        lambda r, _: f"payload.customer.id={r.randrange(50_000)} {r.choice(VERBS)}",
        ask_page,
    ),
    Question(
        "sku: some 1,000 matches", lambda r, _: f"payload.lines.sku=s{r.randrange(2000)}", ask_page
    ),
    Question("error:Timeout", lambda r, _: f"error:{r.choice(ERRORS)[:7]}", ask_page),
    Question("failed, of a kind", lambda r, _: f"state:failed {_kind(r)}", ask_page),
    Question("no match", lambda r, _: f"zebra{r.randrange(99)} payload.order=none", ask_page),
    Question("counts: sku", lambda r, _: f"payload.lines.sku=s{r.randrange(2000)}", ask_counts),
    Question("counts: a common word", lambda r, _: r.choice(VERBS), ask_counts),
    Question("counts: a kind", lambda r, _: _kind(r), ask_counts),
    Question("counts: all jobs", lambda *_: "", ask_counts),
    Question("dead, of a kind", lambda r, _: f"state:dead {_kind(r)}", ask_page),
    Question("suggest kind:r", lambda r, _: f"kind:{r.choice('riwc')}", ask_suggestions),
    Question(
        "suggest customer=12",
        lambda r, _: f"payload.customer.id={r.randrange(99)}",
        ask_suggestions,
    ),
)


def _kind(chance: random.Random) -> str:
    return f"kind:{chance.choice(THINGS).split()[0]}.{chance.choice(VERBS).lower()}"


def _kind_and_country(chance: random.Random) -> str:
    return f"{_kind(chance)} payload.customer.country={chance.choice(COUNTRIES)}"


async def fill(store: OpenStore, count: int, now: datetime) -> Corpus:
    batch: list[KeptJob] = []
    ids: list[str] = []
    for number, job in enumerate(make_jobs(count, now)):
        batch.append(KeptJob(job))
        if number % 997 == 0:
            ids.append(job.id)
        if len(batch) == LOADED_AT_ONCE:
            await store.load(batch, now)
            batch.clear()
    if batch:
        await store.load(batch, now)
    return Corpus(count, ids)


async def build_index(store: OpenStore) -> float:
    async def list_tenants() -> Sequence[str]:
        return [TENANT]

    started = time.perf_counter()
    making = SearchIndexer(store, SystemClock(), "bench", list_tenants, timedelta(0))
    while await making.run_once():
        pass
    return time.perf_counter() - started


async def put_index(store: OpenStore, path: Path | None, now: datetime) -> float:
    """Build the index or, if a file has that of another store, copy it; seconds."""
    started, kept = time.perf_counter(), _read_index(path)
    if kept:
        for at in range(0, len(kept), COPIED_AT_ONCE):
            await store.load(kept[at : at + COPIED_AT_ONCE], now)
        return time.perf_counter() - started
    built = await build_index(store)
    if path is not None:
        found = [
            (collection, each.key, each.version, each.body)
            for collection in COLLECTIONS
            async for page in store.scan(collection)
            for each in page
        ]
        await asyncio.to_thread(path.write_bytes, msgspec.msgpack.encode(found))
    return built


def _read_index(path: Path | None) -> list[KeptDocument]:
    if path is None or not path.exists():
        return []
    kept = msgspec.msgpack.decode(path.read_bytes(), type=list[tuple[str, str, int, bytes]])
    return [KeptDocument(*each) for each in kept]


async def measure_index(store: OpenStore) -> tuple[int, int]:
    """How many documents the index has, and how many bytes."""
    count, size = 0, 0
    for collection in COLLECTIONS:
        async for page in store.scan(collection):
            count += len(page)
            size += sum(len(each.body) for each in page)
    return count, size


async def time_question(
    store: OpenStore, question: Question, corpus: Corpus, repeats: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each answer, and of the CPU of this process, in which SQLite runs too."""
    chance, taken, worked = random.Random(question.name), list[float](), list[float]()
    for _ in range(repeats):
        text = question.make_text(chance, corpus)
        started, began = time.perf_counter(), time.process_time()
        await question.ask(store, text)
        taken.append((time.perf_counter() - started) * 1000)
        worked.append((time.process_time() - began) * 1000)
    return taken, worked


def _p95(taken: Sequence[float]) -> float:
    return sorted(taken)[max(int(len(taken) * 0.95) - 1, 0)]


async def make_table(store: OpenStore, corpus: Corpus, repeats: int) -> Table:
    table = Table("question", "p50 ms", "p95 ms", "longest ms", "CPU p50 ms", "CPU p95 ms")
    all_taken, all_worked = list[float](), list[float]()

    def add(name: str, taken: Sequence[float], worked: Sequence[float]) -> None:
        answers = (statistics.median(taken), _p95(taken), max(taken))
        work = (statistics.median(worked), _p95(worked))
        table.add_row(name, *(f"{each:.1f}" for each in (*answers, *work)))

    for question in QUESTIONS:
        taken, worked = await time_question(store, question, corpus, repeats)
        add(question.name, taken, worked)
        all_taken += taken
        all_worked += worked
    add("all", all_taken, all_worked)
    return table


async def run_store(ground: Ground, kind: StoreKind, asked: argparse.Namespace) -> None:
    if kind is StoreKind.POSTGRES:
        ground.start_server()
    place = ground.new_place(kind)
    console = Console(width=100)
    try:
        async with await open_store(place.settings["url"]) as store:
            started = time.perf_counter()
            now = asked.now or datetime.now(UTC)
            corpus = await fill(store, asked.jobs, now)
            place.settle()
            filled = time.perf_counter() - started
            memory = await _read_memory(store)
            built = await put_index(store, asked.index, now)
            count, size = await measure_index(store)
            grown = await _read_memory(store) - memory
            console.print(
                f"{kind.value}: {asked.jobs:,} jobs loaded in {filled:.0f} s, indexed in "
                f"{built:.0f} s; {count:,} documents, {size / asked.jobs:.0f} bytes a job"
                + (f", {grown / asked.jobs:.0f} bytes of memory a job" if grown else "")
            )
            console.print(await make_table(store, corpus, asked.repeats))
    finally:
        place.close()


async def _read_memory(store: OpenStore) -> int:
    """The memory of a Redis server; 0 for other stores."""
    database = getattr(store, "_database", None)
    if database is None or not hasattr(database, "call"):
        return 0
    told: Any = await database.call("INFO", "memory")
    text = told.decode() if isinstance(told, bytes) else str(told)
    lines = [line for line in text.splitlines() if line.startswith("used_memory:")]
    return int(lines[0].partition(":")[2]) if lines else int(told.get("used_memory", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    names = [kind.value for kind in StoreKind]
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--store", action="append", choices=names)
    parser.add_argument("--now", type=datetime.fromisoformat, help="an instant, to repeat a run")
    parser.add_argument(
        "--index", type=Path, help="copy the index from this file, or build it and write the file"
    )
    asked = parser.parse_args()
    ground = Ground()
    try:
        for kind in StoreKind:
            if kind.value in (asked.store or names):
                asyncio.run(run_store(ground, kind, asked))
    finally:
        ground.close()


if __name__ == "__main__":
    main()
