"""What the status of an answer means for the job."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from rota.errors import DeliveryError
from rota.worker import Discard, Snooze

LONGEST_SNOOZE = timedelta(hours=1)
SHORTEST_SNOOZE = timedelta(seconds=1)

PATIENCE = timedelta(hours=24)
"""How long a job may be put off by those it asks; from then on each answer spends an attempt."""

_TIMEOUT, _TOO_EARLY, _TOO_MANY, _UNAVAILABLE = 408, 425, 429, 503
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def judge_answer(
    status: int,
    retry_after: str | None,
    expected: Collection[int] | None,
    now: datetime,
    age: timedelta,
) -> Snooze | Discard | None:
    """Nothing for success, a Snooze or Discard, or DeliveryError for a failure that may pass.

    - success: a status that is expected; from 200 to 299 when none is named;
    - 429 and 503 that say when to come back: a Snooze, at most an hour, and none after a day;
    - 408, 425, 429 and from 500 on, and 2xx that was not expected: failed, tried again;
    - all else: no repetition would change it, and redirects are not followed.
    """
    if status in expected if expected is not None else 200 <= status < 300:
        return None
    if status in (_TOO_MANY, _UNAVAILABLE) and age < PATIENCE:
        later = read_retry_after(retry_after, now)
        if later is not None:
            return Snooze(min(max(later, SHORTEST_SNOOZE), LONGEST_SNOOZE))
    if status >= 500 or status < 300 or status in (_TIMEOUT, _TOO_EARLY, _TOO_MANY):
        raise DeliveryError(f"answered {status}", status)
    if status < 400:
        return Discard(f"answered {status}: redirects are not followed")
    return Discard(f"answered {status}")


def read_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """In how long to come back, by seconds or by date; None when that is not said."""
    if text is None:
        return None
    if _SECONDS.fullmatch(text.strip()):
        return timedelta(seconds=int(text))
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - now
