"""The variable parts of a path."""

from collections.abc import Mapping

from rota.errors import InvalidRequestError
from rota.jobs import normalize_job_id

JOB_ID = "job_id"
LONGEST = 300


def read_path(parts: Mapping[str, str]) -> Mapping[str, str]:
    """The parts as they are kept; a ``job_id`` that is no UUID is refused.

    It is refused rather than not found: whoever sends it has mistaken something else for an id.
    """
    if not parts:
        return parts
    return {name: _read_part(name, value) for name, value in parts.items()}


def _read_part(name: str, value: str) -> str:
    if name == JOB_ID:
        job_id = normalize_job_id(value)
        if job_id is None:
            raise InvalidRequestError(name, "must be a UUID")
        return job_id
    if len(value) > LONGEST or not value.isprintable():
        raise InvalidRequestError(name, f"must be up to {LONGEST} printable characters")
    return value
