"""What is saved of a damaged file, besides documents."""

from typing import NamedTuple

from rota.stores.sqlite.jobs.queries import QUERIES


class SavedTable(NamedTuple):
    """How a table is read from both of its ends, and how its rows are written again."""

    name: str
    forwards: str
    backwards: str
    restore: str


JOB_TABLES = (
    SavedTable("jobs", QUERIES.rescue_jobs, QUERIES.rescue_jobs_backwards, QUERIES.restore_job),
    SavedTable(
        "job_dependencies",
        QUERIES.rescue_dependencies,
        QUERIES.rescue_dependencies_backwards,
        QUERIES.add_dependency,
    ),
    SavedTable(
        "job_attempts",
        QUERIES.rescue_attempts,
        QUERIES.rescue_attempts_backwards,
        QUERIES.add_attempt,
    ),
)
