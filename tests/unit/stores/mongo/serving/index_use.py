"""Which declared index can serve a query, by the rules MongoDB documents; no server is asked.

Strict: an index serves a query if all that its filter says can be decided on the index alone, and
what it finds comes in the order that is wanted. A condition on a field counts as a point when it
names one value or a list of them: for a list, the server reads one stretch of the index for each
value and merges these in order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rota.stores.mongo.gateway import Query
from rota.stores.mongo.schema.indexes import Index

_RANGES = {"$gt", "$gte", "$lt", "$lte"}


class Conditions(NamedTuple):
    """The fields of a filter, by how narrowly it says what they are."""

    points: frozenset[str]
    ranges: frozenset[str]

    @property
    def fields(self) -> frozenset[str]:
        return self.points | self.ranges


def find_serving(query: Query, indexes: Iterable[Index]) -> list[str]:
    """The names of the indexes by which the query can go; ``_id_`` is everywhere."""
    implicit = Index(query.collection, "_id_", [("_id", 1)], "ids")
    here = [each for each in (implicit, *indexes) if each.collection == query.collection]
    return [index.name for index in here if serves(index, query)]


def serves(index: Index, query: Query) -> bool:
    conditions = read_conditions(query.where)
    implied = index.options.get("partialFilterExpression", {})
    if not all(_implies(query.where, name, value) for name, value in implied.items()):
        return False  # the index does not hold all that the query looks for
    names = [name for name, _ in index.keys]
    if index.options.get("sparse") and not conditions.fields & set(names):
        return False  # what has none of its fields is not in it
    if not conditions.fields <= {*names, *implied}:
        return False  # every document found would have to be read to tell
    return _is_bounded(names, conditions, query, implied) and _is_ordered(index, conditions, query)


def _implies(where: Mapping[str, Any], name: str, wanted: Any) -> bool:
    """Whether all that the filter accepts has the field as an index of a part wants it."""
    if wanted == {"$exists": True}:
        return name in where and None not in (where[name], *_values_in(where[name]))
    return bool(where.get(name) == wanted)


def _values_in(condition: Any) -> Sequence[Any]:
    """The values that a condition names besides itself."""
    if not isinstance(condition, Mapping):
        return ()
    return [*condition.get("$in", ()), *(value for key, value in condition.items() if key != "$in")]


def read_conditions(where: Mapping[str, Any]) -> Conditions:
    """What is under ``$or`` only narrows further what is said beside it."""
    told = {name: value for name, value in where.items() if name != "$or"}
    ranges = frozenset(name for name, value in told.items() if _is_range(value))
    return Conditions(frozenset(told) - ranges, ranges)


def _is_range(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    if value.keys() <= {"$in"}:
        return False
    assert value.keys() <= _RANGES | {"$exists"}, f"a condition this reader does not know: {value}"
    assert value.get("$exists", True), "what is not there is in no index that leaves it out"
    return True


def _is_bounded(
    names: Sequence[str], conditions: Conditions, query: Query, implied: Mapping[str, Any]
) -> bool:
    """Only a stretch of the index is read: by its first field, or by order up to a limit.

    Nothing is passed over on the way when all that a query names is what the index holds.
    """
    is_walked = bool(query.order and query.limit) and conditions.points <= implied.keys()
    return names[0] in conditions.fields or is_walked


def _is_ordered(index: Index, conditions: Conditions, query: Query) -> bool:
    """The order is that of the index, forwards or backwards, once points are left out."""
    wanted = [key for key in query.order if key[0] not in conditions.points]
    given = [key for key in index.keys if key[0] not in conditions.points][: len(wanted)]
    return given in (wanted, [(name, -direction) for name, direction in wanted])
