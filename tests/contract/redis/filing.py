"""Whether each key of a store on Redis says what the heads of its jobs say, and no more."""

from collections import Counter
from typing import Any, NamedTuple

import redis

from rota.stores.redis.address import read_address
from rota.stores.redis.jobs.rows import decode_head
from rota.stores.redis.keys import JOB_KEYS, name_keys

TERMINAL = "CFDB"
COUNTED = "UD"


class _Head(NamedTuple):
    """The texts of a head, as rows.py has them, behind the id."""

    id: str
    code: str
    token: str
    due: str
    updated: str
    until: str
    worker: str
    taken: str
    moved: str
    tenant: str
    queue: str
    rank: str
    created: str
    parents: str
    identity: str
    awaited: str
    sort: str

    @property
    def lane(self) -> str:
        return f"{self.tenant}\0{self.queue}\0"

    @property
    def is_prompt(self) -> bool:
        return self.due == self.created

    @property
    def place(self) -> str:
        letter = self.sort if self.is_prompt else self.sort.upper()
        return f"{self.lane}{letter}{self.rank}{self.created}{self.id}"


def check_filing(address: str) -> None:
    """Compare what is under each key with what follows from the heads."""
    settings = read_address(address)
    names = dict(zip(JOB_KEYS, name_keys(settings.name).jobs, strict=True))
    with redis.Redis.from_url(settings.url) as client:
        found = {part: _read(client, names[part]) for part in JOB_KEYS if part != "wake"}
    raw = found.pop("heads")
    heads = {key: _Head(key, *decode_head(value)) for key, value in raw.items()}
    expected = _file(heads, found["later"])
    for part, members in expected.items():
        assert found[part] == members, part
    assert found["bodies"].keys() == heads.keys()
    assert {member[:36] for member in found["attempts"]} <= heads.keys()


def _read(client: "redis.Redis", key: str) -> Any:
    kind: Any = client.type(key)
    if kind == b"hash":
        pairs: Any = client.hgetall(key)
        return {name.decode(): value for name, value in pairs.items()}
    members: Any = client.zrange(key, 0, -1)
    return {member.decode() for member in members}


def _file(heads: dict[str, _Head], later: set[str]) -> dict[str, Any]:
    """What must be under the keys; only who was let into the line is not in the heads."""
    jobs = heads.values()
    away = {head.id for head in jobs if head.code == "R" and f"{head.due}{head.id}" in later}
    edges = [(heads.get(parent), parent, head) for head in jobs for parent in head.parents.split()]
    awaited = [(parent, head) for its, parent, head in edges if _is_awaited(its, head)]
    open_counts = Counter(head.id for _, head in awaited)
    assert all(int(head.awaited) == open_counts[head.id] for head in jobs if head.code == "P")
    parents = {parent for _, parent, _ in edges}
    counts = Counter(f"{head.code}{head.lane}" for head in jobs if head.code in COUNTED)
    return {
        **{f"listing-{code}": {h.place for h in jobs if h.code == code} for code in "PUCFDB"},
        "ready": {head.place for head in jobs if head.code == "R" and head.id not in away},
        "listing-L": {heads[each].place for each in away},
        "later": {f"{heads[each].due}{each}" for each in away},
        "timetable": {
            f"{head.lane}{head.due}{head.id}"
            for head in jobs
            if head.code == "R" and (head.id in away or not head.is_prompt)
        },
        "leased": {f"{head.until}{head.id}" for head in jobs if head.code == "U"},
        "ended": {
            f"{head.updated}{head.id}"
            for head in jobs
            if head.code in TERMINAL and head.id not in parents
        },
        "children": {f"{parent}{head.id}" for _, parent, head in edges},
        "open": {f"{parent}{head.id}" for parent, head in awaited},
        "identities": {h.identity: h.id.encode() for h in jobs if h.identity} or set(),
        "cascades": set(),
        "counts": {name: str(number).encode() for name, number in counts.items()} or set(),
    }


def _is_awaited(parent: _Head | None, child: _Head) -> bool:
    return child.code == "P" and (parent is None or parent.code != "C")
