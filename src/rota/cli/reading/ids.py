"""Ids of jobs, as they are given on a command line."""

from collections.abc import Callable, Sequence

from rota.errors import InvalidInputError
from rota.jobs import normalize_job_id

REASON = (
    "is no id of a job, such as 01890a5d-ac96-774b-bcce-b302099a8057; rota jobs list shows them"
)
LONGEST_SHOWN = 40

IdCheck = Callable[[object, str | Sequence[str] | None], None]


def check_ids(field: str) -> IdCheck:
    """A check of an option or argument that takes ids: InvalidInputError where one can be none."""

    def check(_kind: object, given: str | Sequence[str] | None) -> None:
        for each in [given] if isinstance(given, str) else given or ():
            if normalize_job_id(each) is None:
                message = f'{field} "{each[:LONGEST_SHOWN]}" {REASON}'
                raise InvalidInputError(message, {"field": field, "reason": REASON})

    return check


check_argument = check_ids("ID")
