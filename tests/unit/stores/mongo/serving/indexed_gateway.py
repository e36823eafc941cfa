"""A model of a server that finds by the declared indexes, and counts what it looks at.

It is no MongoDB: it goes by the index that a query names, which must serve it by the rules that
``index_use`` reads, keeps each as a sorted list, and reads the stretches of it that a filter names.
What it is good for is to count: entries read to answer, and written when a document changes.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice, product
from typing import Any, NamedTuple, TypeAlias

from pymongo import InsertOne, UpdateMany, UpdateOne
from tests.unit.stores.mongo.serving.index_use import find_serving

from rota.stores.mongo.gateway import BY_ID, Operation, Query, Raw, Written
from rota.stores.mongo.schema.indexes import Index

Entry: TypeAlias = tuple[tuple[Any, ...], str]
_COMPARED = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}
_MOST = (2,)


class Counts(NamedTuple):
    """What has been looked at and written."""

    commands: int = 0
    entries_read: int = 0
    entries_written: int = 0


class IndexedGateway:
    """Documents and sorted lists, in memory; for what a lease and its settlement send."""

    def __init__(self, indexes: Iterable[Index]) -> None:
        self._declared = tuple(indexes)
        self._kept: defaultdict[str, dict[str, Raw]] = defaultdict(dict)
        self._entries: dict[tuple[str, str], list[Entry]] = {
            (index.collection, index.name): [] for index in self._declared
        }
        self.counts = Counts()

    def lay(self, collection: str, raws: Iterable[Raw]) -> None:
        """Keep many documents at once, of which nothing is counted."""
        for raw in raws:
            self._kept[collection][raw["_id"]] = raw
            for index in self._of(collection):
                self._entries[collection, index.name] += _entries_of(index, raw)
        for index in self._of(collection):
            self._entries[collection, index.name].sort()

    async def find(self, query: Query) -> list[Raw]:
        """What a query finds, in its order."""
        self._count(commands=1)
        found = (raw for raw in self._look_up(query) if _matches(raw, query.where))
        return [dict(raw) for raw in islice(found, query.limit or None)]

    async def aggregate(
        self, collection: str, stages: Sequence[Mapping[str, Any]], index: str | None = None
    ) -> list[Raw]:
        raise AssertionError(
            f"no lease or settlement counts by a pipeline: {collection}, {stages}, {index}"
        )

    async def write(self, collection: str, operations: Sequence[Operation]) -> Written:
        """Carry out what names its documents by their ids."""
        self._count(commands=1)
        matched = inserted = 0
        for operation in operations:
            if isinstance(operation, InsertOne):
                raw: Raw = dict(operation._doc)
                self._put(collection, raw["_id"], raw)
                inserted += 1
                continue
            assert isinstance(operation, UpdateOne | UpdateMany), operation
            asked = Query(collection, operation._filter)
            for found in [raw for raw in self._by_ids(asked) if _matches(raw, asked.where)]:
                assert isinstance(operation._doc, Mapping)
                self._put(collection, found["_id"], _update(found, operation._doc))
                matched += 1
        return Written(matched, inserted)

    async def pause(self, seconds: float) -> None:
        raise AssertionError(f"there is nobody else to wait for, not even {seconds} s")

    def _look_up(self, query: Query) -> Iterator[Raw]:
        assert query.by in find_serving(query, self._declared)
        if query.by == BY_ID:
            return self._by_ids(query)
        (index,) = (each for each in self._of(query.collection) if each.name == query.by)
        return self._along(index, query)

    def _along(self, index: Index, query: Query) -> Iterator[Raw]:
        entries = self._entries[query.collection, index.name]
        stretches = [_read_between(entries, low, high) for low, high in _bounds(index, query.where)]
        kept = self._kept[query.collection]
        names = [name for name, _ in index.keys]
        places = [names.index(name) for name, _ in query.order]
        ordered = merge(*stretches, key=lambda entry: [entry[0][place] for place in places])
        for _, raw_id in ordered:
            self._count(entries_read=1)
            yield kept[raw_id]

    def _by_ids(self, query: Query) -> Iterator[Raw]:
        wanted, kept = query.where["_id"], self._kept[query.collection]
        for raw_id in wanted["$in"] if isinstance(wanted, Mapping) else [wanted]:
            self._count(entries_read=1)
            if raw_id in kept:
                yield kept[raw_id]

    def _put(self, collection: str, raw_id: str, raw: Raw) -> None:
        before = self._kept[collection].get(raw_id)
        self._kept[collection][raw_id] = raw
        for index in self._of(collection):
            old = set() if before is None else set(_entries_of(index, before))
            new = set(_entries_of(index, raw))
            entries = self._entries[collection, index.name]
            for entry in old - new:
                del entries[bisect_left(entries, entry)]
            for entry in new - old:
                insort(entries, entry)
            self._count(entries_written=len(old ^ new))

    def _of(self, collection: str) -> Iterator[Index]:
        return (index for index in self._declared if index.collection == collection)

    def _count(self, **more: int) -> None:
        grown = {name: getattr(self.counts, name) + count for name, count in more.items()}
        self.counts = self.counts._replace(**grown)


def _entries_of(index: Index, raw: Raw) -> list[Entry]:
    """None for what the index leaves out; several where a field is a list."""
    implied = index.options.get("partialFilterExpression", {})
    if not _matches(raw, implied):
        return []
    names = [name for name, _ in index.keys]
    if index.options.get("sparse") and not any(name in raw for name in names):
        return []
    values = [raw.get(name) for name in names]
    parts = [value if isinstance(value, list) else [value] for value in values]
    directions = [direction for _, direction in index.keys]
    return [
        (tuple(map(_rank, directions, combination)), raw["_id"]) for combination in product(*parts)
    ]


def _rank(direction: int, value: Any) -> tuple[Any, ...]:
    """Sorts as the index does: what is missing first, numbers backwards where that is said."""
    if value is None:
        return (0,)
    return (1, -value if direction < 0 else value)


def _bounds(index: Index, where: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The stretches of the index in which all lies that a filter accepts."""
    points: list[list[tuple[Any, ...]]] = []
    low: tuple[Any, ...] = ()
    high: tuple[Any, ...] = (_MOST,)
    for name, direction in index.keys:
        condition = where.get(name)
        if condition is None:
            break
        if isinstance(condition, Mapping) and "$in" not in condition:
            assert direction > 0, "a range against the direction of an index"
            low, high = _lowest(condition), _highest(condition)
            break
        told = condition["$in"] if isinstance(condition, Mapping) else [condition]
        points.append([_rank(direction, value) for value in told])
    for prefix in product(*points):
        yield (*prefix, low), (*prefix, *high)


def _lowest(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    """From where on; what is longer than an entry comes after it, so that it is left out."""
    if "$gt" in condition:
        return (1, condition["$gt"], 0)
    return (1, condition["$gte"]) if "$gte" in condition else (1,)


def _highest(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    if "$lt" in condition:
        return ((1, condition["$lt"]),)
    return ((1, condition["$lte"]), _MOST) if "$lte" in condition else (_MOST,)


def _read_between(entries: list[Entry], low: Any, high: Any) -> Iterator[Entry]:
    start, end = bisect_left(entries, (low, "")), bisect_right(entries, (high, ""))
    return (entries[place] for place in range(start, end))


def _matches(raw: Raw, where: Mapping[str, Any]) -> bool:
    return all(_accepts(condition, raw.get(name)) for name, condition in where.items())


def _accepts(condition: Any, value: Any) -> bool:
    if not isinstance(condition, Mapping):
        return bool(value == condition)
    return all(_holds(name, bound, value) for name, bound in condition.items())


def _holds(name: str, bound: Any, value: Any) -> bool:
    if name == "$exists":
        return (value is not None) is bound
    if name == "$in":
        return value in bound
    return value is not None and bool(_COMPARED[name](value, bound))


def _update(raw: Raw, update: Mapping[str, Any]) -> Raw:
    """The document afterwards, as the operators say that a lease and a settlement use."""
    after = {**raw, **update.get("$set", {})}
    for name in update.get("$unset", {}):
        after.pop(name, None)
    for name, amount in update.get("$inc", {}).items():
        after[name] = raw.get(name, 0) + amount
    for name, pushed in update.get("$push", {}).items():
        several = pushed["$each"] if isinstance(pushed, Mapping) else [pushed]
        after[name] = [*raw.get(name, ()), *several]
    return after
