"""The statements of ``queries.sql`` by attribute; a missing or unknown one fails on import."""

import re
from dataclasses import dataclass
from functools import lru_cache

from rota.stores.postgres.address import DEFAULT_SCHEMA
from rota.stores.statements import load_statements

_SCHEMA = re.compile(rf"\b{DEFAULT_SCHEMA}\b")


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement by name; the file says what each does."""

    begin: str
    commit: str
    roll_back: str
    set_savepoint: str
    release_savepoint: str
    roll_back_to_savepoint: str
    ping: str
    read_clock: str
    notify: str
    notify_at_commit: str
    read_context: str
    wait_for_locks: str
    lock_schema: str
    create_schema: str
    create_migrations: str
    read_migrations: str
    record_migration: str
    read_server: str
    count_documents: str
    count_jobs: str
    scan_page: str
    read_keys: str
    apply_writes: str
    job_rows: str
    read_jobs: str
    lock_jobs: str
    find_twins: str
    insert_jobs: str
    add_dependencies: str
    mark_awaited: str
    unmark_awaited: str
    complete_jobs: str
    move_jobs: str
    place_jobs: str
    amend_job: str
    add_attempts: str
    set_aside: str
    find_waiting: str
    lock_waiting: str
    count_open: str
    find_children: str
    find_dependents: str
    lock_dependencies: str
    find_ancestors: str
    find_ended: str
    remove_dependencies: str
    remove_attempts: str
    remove_jobs: str
    lease: str
    find_partitions: str
    find_first: str
    take_jobs: str
    mark_due: str
    extend: str
    lock_scopes: str
    count_running: str
    read_horizon: str
    next_due_after: str
    find_expired: str
    next_due: str
    next_due_in: str
    read_attempts: str
    find_page: str
    find_held_up: str
    find_recurring: str
    count_page: str
    count_held_up: str
    count_recurring: str
    survey: str
    dump_documents: str
    dump_jobs: str
    dump_attempts: str
    find_parents: str
    load_documents: str
    find_loaded: str
    load_unreadable: str
    load_awaited: str


QUERIES = Queries(**load_statements("rota.stores.postgres", "queries.sql"))


@lru_cache(maxsize=256)
def placed(statement: str, schema: str) -> str:
    """The statement with its tables in ``schema``, whose name needs no quoting."""
    return _SCHEMA.sub(schema, statement)
