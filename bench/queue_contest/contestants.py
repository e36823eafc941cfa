"""Who takes part, with which settings, and how their stores are asked whether work is left."""

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

BATCH = 500
"""What Rota leases at once here; pgbench and the bare statements use the same."""

MONGO_BATCH = 100

CONCURRENT = 100
"""How many jobs Rota's worker runs at once; Graphile Worker's the same."""

BULK_SIZE = 500
"""How many jobs a bulk hands in at once, for all."""

POLL_SECONDS = 2


class StoreKind(StrEnum):
    """What the jobs are kept in."""

    POSTGRES = "postgres"
    SQLITE = "sqlite"
    REDIS = "redis"
    MONGO = "mongo"
    MYSQL = "mysql"


class Measure(StrEnum):
    """What is measured of a contestant, in this order: after idling the disk has come to rest."""

    ENQUEUE = "enqueue"
    BULK = "bulk"
    DRAIN = "drain"
    DRAIN_TWO = "drain-by-two"
    IDLE = "idle"
    LATENCY = "latency"


EVERYTHING = tuple(Measure)
DRAINS = (Measure.DRAIN, Measure.DRAIN_TWO)


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A program of ``peers`` with settings.

    ``is_pending`` is a statement, or a script, that gives one true value while a job is unfinished,
    and ``table`` the table that is locked until the starting gun. A limit is not in the race: it
    shows how fast bare statements are. ``checkout`` is another checkout of Rota whose program runs.
    ``drain_share`` is the part of the jobs that a slow contestant drains.
    """

    name: str
    store: StoreKind
    environment: str
    program: str
    words: str
    is_pending: str
    table: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    measures: tuple[Measure, ...] = EVERYTHING
    drain_share: float = 1.0
    is_limit: bool = False
    checkout: Path | None = None

    @property
    def key(self) -> str:
        return f"{self.name} on {self.store}"


ROTA = "Rota"
ROTA_DOOR = "Rota, door"
ROTA_RESULTS = "Rota with results"
DOOR_RESULTS = "Rota, door with results"
DOOR_SYNC = "Rota, enqueue_sync"
ROTA_BEFORE = "Rota, other checkout"
PGQUEUER = "PgQueuer"
PROCRASTINATE = "Procrastinate"
GRAPHILE = "Graphile Worker"
GRAPHILE_DEFAULTS = "Graphile, defaults"
PGBENCH = "pgbench, Rota's statements"
ASYNCPG = "asyncpg, bare table"
HUEY_OFF = "Huey, synchronous=OFF"
HUEY = "Huey"
APSW = "apsw, Rota's statements"
BULLMQ = "BullMQ"
CELERY = "Celery"
DRAMATIQ = "dramatiq"
TASKIQ = "taskiq"
SAQ = "SAQ"
ARQ = "arq"
AGENDA = "Agenda"
PULSE = "Pulse"
MONGO_LOOP = "find_one_and_update"
MYSQL_LOOP = "SKIP LOCKED, one at a time"

MAIN_CONTESTANTS = (
    *(ROTA, ROTA_DOOR, DOOR_SYNC, PGQUEUER, PROCRASTINATE, GRAPHILE, HUEY, BULLMQ, CELERY),
    DRAMATIQ,
    *(TASKIQ, SAQ, AGENDA, PULSE, MONGO_LOOP),
)
"""Those on the page in the docs."""

_ROTA_SETTINGS = {"batch": BATCH, "concurrency": CONCURRENT, "uvloop": True}
_ROTA_PENDING = "SELECT EXISTS (SELECT 1 FROM rota.jobs WHERE status <> 'COMPLETED')"
_HUEY_PENDING = "SELECT EXISTS (SELECT 1 FROM task)"


def list_contestants() -> list[Contestant]:
    """All of them, in the order they are shown in."""
    listed = [*_on_postgres(), *_on_sqlite(), *_on_redis(), *_on_mongo(), *_on_mysql()]
    return [each for contestant in listed for each in _with_doors(contestant)]


def _with_doors(contestant: Contestant) -> list[Contestant]:
    """The contestant; after Rota's engine its front door, and both with results."""
    if contestant.name != ROTA:
        return [contestant]
    door = replace(contestant, name=ROTA_DOOR, program="on_door")
    settings = {**contestant.settings, "keeps_result": True}
    with_results = replace(contestant, name=ROTA_RESULTS, settings=settings, measures=DRAINS)
    door_with_results = replace(door, name=DOOR_RESULTS, settings=settings)
    listed = [contestant, door, with_results, door_with_results]
    if contestant.store is StoreKind.SQLITE:  # where the caller's thread writes, as Huey's does
        settings = {**contestant.settings, "is_sync": True}
        listed.append(replace(door, name=DOOR_SYNC, settings=settings, measures=(Measure.ENQUEUE,)))
    return listed


def in_other_checkout(
    contestant: Contestant, checkout: Path, is_pending: str | None
) -> Contestant | None:
    """The same contestant run from another checkout; None when that one lacks its store."""
    if is_pending is None:
        return None
    return replace(contestant, name=ROTA_BEFORE, checkout=checkout, is_pending=is_pending)


def _on_postgres() -> list[Contestant]:
    return [
        Contestant(
            name=ROTA,
            store=StoreKind.POSTGRES,
            environment="rota",
            program="on_rota",
            words=f"batch {BATCH}, {CONCURRENT} concurrent, uvloop, finished jobs kept",
            is_pending=_ROTA_PENDING,
            table="rota.jobs",
            settings={**_ROTA_SETTINGS, "poll": POLL_SECONDS},
        ),
        Contestant(
            name=PGQUEUER,
            store=StoreKind.POSTGRES,
            environment="pgqueuer",
            program="on_pgqueuer",
            words="batch 1000, one asyncpg connection, uvloop",
            is_pending="SELECT EXISTS (SELECT FROM pgqueuer)",
            table="pgqueuer",
            settings={"batch": 1000, "uvloop": True, "poll": POLL_SECONDS},
        ),
        _procrastinate(),
        _graphile(
            GRAPHILE,
            {"concurrent": 100, "localQueue": 500},
            "local queue 500, 100 concurrent, completion batched",
            EVERYTHING,
        ),
        _graphile(
            GRAPHILE_DEFAULTS,
            {"concurrent": 24, "localQueue": 0},
            "no local queue, 24 concurrent: its best latency",
            (Measure.LATENCY, Measure.IDLE),
        ),
        *_postgres_limits(),
    ]


def _procrastinate() -> Contestant:
    return Contestant(
        name=PROCRASTINATE,
        store=StoreKind.POSTGRES,
        environment="procrastinate",
        program="on_procrastinate",
        words="10 concurrent, psycopg pool, finished jobs kept",
        is_pending="SELECT EXISTS (SELECT FROM procrastinate_jobs"
        " WHERE status IN ('todo', 'doing'))",
        table="procrastinate_jobs",
        settings={"concurrent": 10, "poll": POLL_SECONDS},
        drain_share=0.1,
    )


def _graphile(
    name: str, settings: dict[str, int], words: str, measures: tuple[Measure, ...]
) -> Contestant:
    return Contestant(
        name=name,
        store=StoreKind.POSTGRES,
        environment="node",
        program="on_graphile.mjs",
        words=words,
        is_pending="SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)",
        table="graphile_worker._private_jobs",
        settings={**settings, "poll": POLL_SECONDS},
        measures=measures,
    )


def _postgres_limits() -> list[Contestant]:
    return [
        Contestant(
            name=PGBENCH,
            store=StoreKind.POSTGRES,
            environment="rota",
            program="on_rota",
            words=f"the statements of lease and apply, batch {BATCH}, no handler",
            is_pending=_ROTA_PENDING,
            measures=DRAINS,
            is_limit=True,
        ),
        Contestant(
            name=ASYNCPG,
            store=StoreKind.POSTGRES,
            environment="rota",
            program="limits.on_asyncpg",
            words=f"id, state, due time and payload; batch {BATCH}, uvloop",
            is_pending="SELECT EXISTS (SELECT FROM bare_jobs WHERE state < 2)",
            table="bare_jobs",
            settings={"batch": BATCH, "uvloop": True},
            measures=(Measure.ENQUEUE, Measure.BULK, *DRAINS),
            is_limit=True,
        ),
    ]


def _on_sqlite() -> list[Contestant]:
    return [
        Contestant(
            name=ROTA,
            store=StoreKind.SQLITE,
            environment="rota",
            program="on_rota",
            words=f"synchronous=FULL, batch {BATCH}, {CONCURRENT} concurrent, looks every 2-100 ms",
            is_pending="SELECT EXISTS (SELECT 1 FROM jobs WHERE status <> 'COMPLETED')",
            settings={**_ROTA_SETTINGS, "poll": POLL_SECONDS},
        ),
        _huey(HUEY_OFF, fsync=False, words="may lose jobs; 1 thread, polls every 10-50 ms"),
        _huey(HUEY, fsync=None, words="its default, WAL and FULL; 1 thread, polls every 10-50 ms"),
        Contestant(
            name=APSW,
            store=StoreKind.SQLITE,
            environment="rota",
            program="limits.on_apsw",
            words=f"the statements of lease and apply, batch {BATCH}, no worker",
            is_pending="SELECT EXISTS (SELECT 1 FROM jobs WHERE status <> 'COMPLETED')",
            settings={"batch": BATCH},
            measures=DRAINS,
            is_limit=True,
        ),
    ]


def _on_redis() -> list[Contestant]:
    return [
        Contestant(
            name=ROTA,
            store=StoreKind.REDIS,
            environment="rota",
            program="on_rota",
            words=f"batch {BATCH}, {CONCURRENT} concurrent, uvloop, finished jobs kept",
            is_pending="return redis.call('EXISTS', '{rota}:ready', '{rota}:leased')",
            settings={**_ROTA_SETTINGS, "poll": POLL_SECONDS},
        ),
        Contestant(
            name=BULLMQ,
            store=StoreKind.REDIS,
            environment="bullmq",
            program="on_redis/on_bullmq.mjs",
            words=f"{CONCURRENT} concurrent, finished jobs removed",
            is_pending="return redis.call('EXISTS', 'bull:bench:wait', 'bull:bench:active')",
            settings={"concurrent": CONCURRENT},
        ),
        *_python_on_redis(),
    ]


def _python_on_redis() -> list[Contestant]:
    """They have no call for many jobs; those of a drain are laid in one by one."""
    return [
        _on_redis_alone(
            CELERY,
            words="solo pool, 100 fetched ahead, no results, no gossip, mingle or heartbeat",
            is_pending="return redis.call('EXISTS', 'celery', 'unacked')",
            settings={"prefetch": 100},
            drain_share=0.2,
        ),
        _on_redis_alone(
            DRAMATIQ,
            words="8 threads, 500 fetched ahead, its usual middleware",
            is_pending="return redis.call('EXISTS', 'dramatiq:default.msgs')",
            settings={"threads": 8, "prefetch": 500},
        ),
        _on_redis_alone(
            TASKIQ,
            words=f"stream broker, {CONCURRENT} concurrent, 500 fetched ahead, no results, uvloop",
            is_pending=_STREAM_PENDING,
            settings={"concurrent": CONCURRENT, "prefetch": 500, "uvloop": True},
        ),
        _on_redis_alone(
            SAQ,
            words=f"{CONCURRENT} concurrent, uvloop",
            is_pending="return redis.call('EXISTS', 'saq:default:queued', 'saq:default:active')",
            settings={"concurrent": CONCURRENT, "uvloop": True},
        ),
        _on_redis_alone(
            ARQ,
            words="200 concurrent, polls every 10 ms, no results, uvloop",
            is_pending="return redis.call('EXISTS', 'arq:queue')",
            settings={"concurrent": 200, "poll": 0.01, "uvloop": True},
        ),
    ]


_STREAM_PENDING = """
local group, facts = redis.call('XINFO', 'GROUPS', 'taskiq')[1], {}
for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
return (facts.lag or 0) + (facts.pending or 0)
"""


def _on_redis_alone(
    name: str, *, words: str, is_pending: str, settings: dict[str, Any], drain_share: float = 1.0
) -> Contestant:
    return Contestant(
        name=name,
        store=StoreKind.REDIS,
        environment=name.lower(),
        program=f"on_redis.on_{name.lower()}",
        words=words,
        is_pending=is_pending,
        settings=settings,
        measures=(Measure.ENQUEUE, *DRAINS, Measure.LATENCY, Measure.IDLE),
        drain_share=drain_share,
    )


def _on_mongo() -> list[Contestant]:
    return [
        Contestant(
            name=ROTA,
            store=StoreKind.MONGO,
            environment="mongo",
            program="on_rota",
            words=f"batch {MONGO_BATCH}, {CONCURRENT} concurrent, uvloop, finished jobs kept",
            is_pending='["rota_jobs", {"phase": {"$in": ["due", "later", "running"]}}]',
            settings={**_ROTA_SETTINGS, "batch": MONGO_BATCH, "poll": POLL_SECONDS},
        ),
        _on_agenda(AGENDA),
        _on_agenda(PULSE),
        Contestant(
            name=MONGO_LOOP,
            store=StoreKind.MONGO,
            environment="mongo",
            program="on_mongo.on_loop",
            words="one document after the other, the mongodb-cron way; uvloop, finished ones kept",
            is_pending='["crontab", {"sleepUntil": {"$ne": null}}]',
            settings={"uvloop": True},
            measures=(Measure.ENQUEUE, Measure.BULK, *DRAINS),
            drain_share=0.1,
        ),
    ]


def _on_agenda(name: str) -> Contestant:
    """They have no call for many jobs."""
    unfinished = {"$or": [{"nextRunAt": {"$ne": None}}, {"lockedAt": {"$ne": None}}]}
    collection = {AGENDA: "agendaJobs", PULSE: "pulseJobs"}[name]
    return Contestant(
        name=name,
        store=StoreKind.MONGO,
        environment=name.lower(),
        program="on_mongo/on_agenda.mjs",
        words=f"{CONCURRENT} concurrent, looks every 10 ms, finished jobs kept",
        is_pending=json.dumps([collection, unfinished]),
        settings={"package": name.lower(), "concurrent": CONCURRENT, "poll": 10},
        measures=(Measure.ENQUEUE, *DRAINS, Measure.LATENCY, Measure.IDLE),
        drain_share=0.1,
    )


def _on_mysql() -> list[Contestant]:
    return [
        Contestant(
            name=ROTA,
            store=StoreKind.MYSQL,
            environment="mysql",
            program="on_rota",
            words=f"batch {BATCH}, {CONCURRENT} concurrent, uvloop, finished jobs kept",
            is_pending="SELECT EXISTS (SELECT 1 FROM rota_jobs WHERE status <> 'COMPLETED')",
            settings={**_ROTA_SETTINGS, "poll": POLL_SECONDS},
            measures=(Measure.ENQUEUE, Measure.BULK, *DRAINS, Measure.IDLE),
        ),
        Contestant(
            name=MYSQL_LOOP,
            store=StoreKind.MYSQL,
            environment="mysql",
            program="on_mysql.on_loop",
            words="two short transactions for each job; uvloop, finished ones kept",
            is_pending="SELECT EXISTS (SELECT 1 FROM queue WHERE status < 2)",
            settings={"uvloop": True},
            measures=(Measure.ENQUEUE, Measure.BULK, *DRAINS),
            drain_share=0.1,
        ),
    ]


def _huey(name: str, *, fsync: bool | None, words: str) -> Contestant:
    return Contestant(
        name=name,
        store=StoreKind.SQLITE,
        environment="huey",
        program="on_huey",
        words=words,
        is_pending=_HUEY_PENDING,
        settings={"fsync": fsync},
        measures=(Measure.ENQUEUE, *DRAINS, Measure.LATENCY, Measure.IDLE),
    )
