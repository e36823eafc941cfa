"""Checks that each key of a store on Redis says what the heads of its jobs say, and no more."""

import json
from collections import Counter
from typing import Any, NamedTuple

import redis

from rota.stores.redis.address import read_address
from rota.stores.redis.keys import JOB_KEYS, name_keys
from rota.stores.redis.rows import Head, decode_head

TERMINAL = "CFDB"
CHANNELS = ("wake", "ends")


class _Filed(NamedTuple):
    """A job's head, and what follows from it."""

    id: str
    head: Head

    @property
    def code(self) -> str:
        return self.head.code

    @property
    def partition(self) -> str:
        tenant, queue = self.head.partition
        return f"{tenant}\0{queue}\0"

    @property
    def is_prompt(self) -> bool:
        return self.head.slot.endswith(self.head.due)

    @property
    def place(self) -> str:
        return f"{self.head.slot}{self.id}"


def check_filing(address: str) -> None:
    """Compare what is under each key with what follows from the heads."""
    settings = read_address(address)
    names = dict(zip(JOB_KEYS, name_keys(settings.name).jobs, strict=True))
    with redis.Redis.from_url(settings.url) as client:
        found = {part: _read(client, names[part]) for part in JOB_KEYS if part not in CHANNELS}
    raw = found.pop("heads")
    jobs = {key: _Filed(key, decode_head(value)) for key, value in raw.items()}
    for job in jobs.values():
        letter = job.head.slot.removeprefix(job.partition)[0]
        assert letter.islower() == job.is_prompt
    expected = _file(jobs, found["later"], _edges_of(found))
    for part, members in expected.items():
        assert found[part] == members, part
    assert found["bodies"].keys() == jobs.keys()
    assert {member[:36] for member in found["attempts"]} <= jobs.keys()
    assert set(found["results"]) <= {job.id for job in jobs.values() if job.code == "C"}


def _read(client: "redis.Redis", key: str) -> Any:
    kind: Any = client.type(key)
    if kind == b"hash":
        pairs: Any = client.hgetall(key)
        return {name.decode(): value for name, value in pairs.items()}
    members: Any = client.zrange(key, 0, -1)
    return {member.decode() for member in members}


def _edges_of(found: dict[str, Any]) -> dict[str, list[str]]:
    """By job, its dependencies as its body has them."""
    bodies = {key: json.loads(body) for key, body in found["bodies"].items()}
    return {key: body["dependencies"] for key, body in bodies.items() if "dependencies" in body}


def _file(
    all_jobs: dict[str, _Filed], later: set[str], parents_of: dict[str, list[str]]
) -> dict[str, Any]:
    """What must be under the keys; the heads do not say which jobs were found to be due."""
    jobs = all_jobs.values()
    away = {job.id for job in jobs if job.code == "R" and f"{job.head.due}{job.id}" in later}
    edges = [(each, all_jobs[key]) for key, parents in parents_of.items() for each in parents]
    _check_dependencies(all_jobs, edges)
    parents = {parent for parent, _ in edges}
    return {
        **{f"listing-{code}": {job.place for job in jobs if job.code == code} for code in "PUCFDB"},
        "ready": {job.place for job in jobs if job.code == "R" and job.id not in away},
        "listing-L": {all_jobs[each].place for each in away},
        "later": {f"{all_jobs[each].head.due}{each}" for each in away},
        "timetable": {
            f"{job.partition}{job.head.due}{job.id}"
            for job in jobs
            if job.code == "R" and (job.id in away or not job.is_prompt)
        },
        "leased": {f"{job.head.until}{job.id}" for job in jobs if job.code == "U"},
        "ended": {
            f"{job.head.updated}{job.id}"
            for job in jobs
            if job.code in TERMINAL and job.id not in parents
        },
        "children": {f"{parent}{job.id}" for parent, job in edges},
        "parents": {key: " ".join(each).encode() for key, each in parents_of.items()} or set(),
        "identities": {j.head.identity: j.id.encode() for j in jobs if j.head.identity} or set(),
        "intent": set(),
    }


def _done(job: _Filed) -> str:
    """The codes of dependencies for which the job does not wait."""
    return TERMINAL if job.head.linked.on_parent_failure == "run" else "C"


def _check_dependencies(jobs: dict[str, _Filed], edges: list[tuple[str, _Filed]]) -> None:
    """Each PENDING job counts what it waits for, and each job with dependents is marked."""
    open_counts = Counter(
        job.id
        for parent, job in edges
        if job.code == "P" and (parent not in jobs or jobs[parent].code not in _done(job))
    )
    pending = [job for job in jobs.values() if job.code == "P"]
    assert all(job.head.linked.open_count == open_counts[job.id] for job in pending)
    assert all(jobs[parent].head.linked.is_awaited for parent, _ in edges if parent in jobs)
