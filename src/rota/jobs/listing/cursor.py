"""Where a page of a list ends: opaque to whoever passes it back."""

import base64
from datetime import datetime

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs.codec import format_instant, parse_instant
from rota.jobs.identity import normalize_job_id
from rota.jobs.record import JobId

LONGEST_CURSOR = 200


def encode_cursor(created_at: datetime, job_id: JobId) -> str:
    """The Base64 of ``created_at|id``.

    None of its characters needs an escape in a query, except the ``=`` at its end.
    """
    return base64.b64encode(f"{format_instant(created_at)}|{job_id}".encode()).decode()


def decode_cursor(text: str) -> tuple[datetime, JobId]:
    """The instant and the id that ``encode_cursor`` was given; anything else is refused."""
    if len(text) > LONGEST_CURSOR:
        raise InvalidCursorError(f"must not be longer than {LONGEST_CURSOR} characters")
    try:
        plain = base64.b64decode(text, validate=True).decode("ascii")
    except ValueError as error:
        raise InvalidCursorError("is not the Base64 of a place in a list") from error
    instant, _, identifier = plain.partition("|")
    job_id = normalize_job_id(identifier)
    if job_id is None:
        raise InvalidCursorError("does not end with the id of a job")
    try:
        return parse_instant(instant), job_id
    except InvalidInputError as error:
        raise InvalidCursorError("does not begin with an instant") from error
