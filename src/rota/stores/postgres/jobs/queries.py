"""The statements about jobs by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement by name; what each does is said in the file."""

    insert_jobs: str
    insert_alike: str
    insert_missing: str
    insert_one: str
    read_jobs: str
    lock_jobs: str
    find_twins: str
    add_dependencies: str
    mark_awaited: str
    unmark_awaited: str
    lease_only_lane: str
    lease: str
    promote: str
    extend: str
    find_expired: str
    next_due: str
    next_due_in: str
    complete_jobs: str
    move_jobs: str
    find_children: str
    find_dependents: str
    find_waiting: str
    find_ancestors: str
    lock_dependencies: str
    remove_dependencies: str
    remove_jobs: str
    remove_attempts: str
    add_attempts: str
    read_attempts: str
    amend: str
    set_aside: str
    find_ended: str
    find_parents: str
    find_freed: str
    find_page: str
    find_held_up: str
    find_recurring: str
    count_held_up: str
    count_recurring: str
    count_page: str
    read_clock: str
    notify: str
    notify_at_commit: str
    ping: str
    set_savepoint: str
    release_savepoint: str
    roll_back_to_savepoint: str


QUERIES = Queries(**load_statements("rota.stores.postgres.jobs", "queries.sql"))
