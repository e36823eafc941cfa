"""A server that speaks MongoDB's protocol, kept in one SQLite file; run by a Python of its own.

It imports nothing of the project: the environment that runs it holds only what the file of
requirements for this server names. ``python mongo_stand_in.py FILE PORT`` serves until SIGTERM;
with ``--unordered`` it finds nothing by its date, which measurements ask for: an index for some
queries and none for others would favour those who ask them.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any


async def serve(file: str, port: int, *, is_ordered: bool) -> None:
    # Imported by name, for where the tests are checked these libraries are not installed.
    wire = import_module("mongoeco.wire")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine_type = make_engine_type()
    if is_ordered:
        engine_type = make_ordered(engine_type)
    engine = engine_type(file, executor_workers=1)
    async with wire.AsyncMongoEcoProxyServer(engine=engine, host="127.0.0.1", port=port):
        await stop.wait()


def make_engine_type() -> Any:
    """The engine, but it finds documents by the ids it is told, without reading all the others.

    Only ids that are text are looked up so; they are unique by the key under which they are kept.
    And it tells nobody of changes, for which it would start a thread after every write.
    """
    engines: Any = import_module("mongoeco.engines.sqlite")
    match_plan: Any = import_module("mongoeco.core.filtering").QueryEngine.match_plan

    class Engine(engines.SQLiteEngine):  # type: ignore[misc] # a class of no known type
        def _validate_document_against_unique_indexes(self, *names: Any, **options: Any) -> None:
            options["scan_payload_id"] = False
            super()._validate_document_against_unique_indexes(*names, **options)

        def dispatch_committed_changes(self, *_: Any) -> None:
            """Nobody listens."""

        def _select_first_document_for_plan(
            self, db_name: str, coll_name: str, plan: Any, **options: Any
        ) -> Any:
            ids, _ = split_ids(plan)
            if ids is None:
                return super()._select_first_document_for_plan(db_name, coll_name, plan, **options)
            connection = self._require_connection(options.get("context"))
            with self._bind_connection(connection):
                keys = [self._storage_key(each) for each in ids]
                found = self._load_documents_by_storage_keys(db_name, coll_name, keys)
            fitting = (pair for pair in found.items() if match_plan(pair[1], plan))
            return next(fitting, None)

        def _build_select_sql(
            self, db_name: str, coll_name: str, plan: Any, **options: Any
        ) -> tuple[str, list[Any]]:
            ids, rest = split_ids(plan)
            sql, parameters = super()._build_select_sql(db_name, coll_name, rest, **options)
            keys = None if ids is None else [self._storage_key(each) for each in ids]
            return (sql, parameters) if keys is None else narrow(sql, parameters, keys)

    return Engine


def make_ordered(engine_type: Any) -> Any:
    """The engine, but it finds the first document in order of a date as if by an index."""

    class Ordered(engine_type):  # type: ignore[misc] # a class of no known type
        def _update_with_operation_sync(
            self, db_name: str, coll_name: str, operation: Any, *more: Any, **options: Any
        ) -> Any:
            self._updating = operation
            update = super()._update_with_operation_sync
            try:
                return update(db_name, coll_name, operation, *more, **options)
            finally:
                self._updating = None

        def _load_documents(self, db_name: str, coll_name: str) -> Any:
            updating: Any = getattr(self, "_updating", None)
            self._updating = None  # what is loaded after that is compared with what was written
            field = date_in_front(updating)
            if field is None:
                return super()._load_documents(db_name, coll_name)
            rows = self._require_connection().execute(BY_DATE, (field, db_name, coll_name))
            return up_to_the_first(rows, self._deserialize_document, updating.plan)

    return Ordered


BY_DATE = """
SELECT storage_key, document, CASE kind WHEN 'datetime' THEN value END AS date FROM (
    SELECT storage_key, document, json_type(document, '$.' || ?1) AS sort,
        json_extract(document, '$.' || ?1 || '."$mongoeco".type') AS kind,
        json_extract(document, '$.' || ?1 || '."$mongoeco".value') AS value
    FROM documents WHERE db_name = ?2 AND coll_name = ?3
) WHERE sort IS NOT 'null' ORDER BY date
"""
"""All that have not null there: those without a date, and then in order of their dates."""


def up_to_the_first(
    rows: Iterable[tuple[str, str, str | None]], decode: Callable[[str], Any], plan: Any
) -> Iterator[tuple[str, Any]]:
    """All that could come first: none that is later than the earliest one that fits the filter."""
    match_plan: Any = import_module("mongoeco.core.filtering").QueryEngine.match_plan
    first = None
    for key, text, date in rows:
        if first is not None and date is not None and date > first:
            return
        document = decode(text)
        yield key, document
        if first is None and date is not None and match_plan(document, plan):
            first = date


def date_in_front(operation: Any) -> str | None:
    """The field by which the first document is wanted, when it must not be null; else None."""
    if operation is None or not operation.sort or operation.sort[0][1] != 1:
        return None
    field = operation.sort[0][0]
    return field if excludes_null(operation.plan, field) else None


def excludes_null(plan: Any, field: str) -> bool:
    nodes: Any = import_module("mongoeco.core.query_plan")
    if isinstance(plan, nodes.AndCondition):
        return any(excludes_null(clause, field) for clause in plan.clauses)
    is_unequal = isinstance(plan, nodes.NotEqualsCondition)
    return is_unequal and (plan.field, plan.value) == (field, None)


def narrow(sql: str, parameters: list[Any], keys: list[str]) -> tuple[str, list[Any]]:
    """The same statement, about the documents under these keys only."""
    place = "coll_name = ?"
    at = sql.count("?", 0, sql.index(place) + len(place))
    named = f"{place} AND storage_key IN ({', '.join('?' * len(keys))})"
    return sql.replace(place, named, 1), [*parameters[:at], *keys, *parameters[at:]]


def split_ids(plan: Any) -> tuple[tuple[str, ...] | None, Any]:
    """The ids, all text, that a filter names, None if it names none; and what else it says."""
    nodes: Any = import_module("mongoeco.core.query_plan")
    clauses = plan.clauses if isinstance(plan, nodes.AndCondition) else (plan,)
    for place, clause in enumerate(clauses):
        if getattr(clause, "field", None) != "_id":
            continue
        ids: tuple[Any, ...] | None = None
        if isinstance(clause, nodes.EqualsCondition):
            ids = (clause.value,)
        elif isinstance(clause, nodes.InCondition):
            ids = clause.values
        if ids is not None and all(isinstance(each, str) for each in ids):
            others = (*clauses[:place], *clauses[place + 1 :])
            return ids, nodes.AndCondition(others) if others else nodes.MatchAll()
    return None, plan


if __name__ == "__main__":
    sys.setswitchinterval(0.0001)  # its two threads hand each other every single operation
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), is_ordered="--unordered" not in sys.argv))
