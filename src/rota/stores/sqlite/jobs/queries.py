"""The statements about jobs by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement by name; what each does is said in the file."""

    insert: str
    take_back: str
    read_jobs: str
    read_statuses: str
    find_twin: str
    add_dependency: str
    mark_awaited: str
    count_open: str
    promote: str
    next_lane: str
    is_lane_due: str
    look_along: str
    look_along_level: str
    read_leased: str
    lease_lane: str
    lease_chosen: str
    set_aside: str
    extend: str
    move: str
    complete: str
    add_attempt: str
    lower_open_counts: str
    release: str
    block: str
    find_dependents: str
    has_dependents: str
    read_dependents: str
    find_ancestors: str
    amend: str
    remove: str
    remove_attempts: str
    remove_dependencies: str
    find_ended: str
    find_freed: str
    read_expired: str
    first_later: str
    first_later_of_tenants: str
    first_later_of_queue: str
    first_later_of_both: str
    first_in_lane: str
    find: str
    find_held_up: str
    find_recurring: str
    find_running: str
    find_few_ready: str
    count_ready: str
    count_held_up: str
    count_recurring: str
    count: str
    count_all: str
    read_attempts: str
    rescue_jobs: str
    rescue_jobs_backwards: str
    restore_job: str
    rescue_dependencies: str
    rescue_dependencies_backwards: str
    rescue_attempts: str
    rescue_attempts_backwards: str


QUERIES = Queries(**load_statements("rota.stores.sqlite.jobs", "queries.sql"))
