"""What was found out about a job, before it is put together as an explanation."""

from datetime import datetime
from typing import NamedTuple

from rota.control.why.explanation import Answer, Reason


class Finding(NamedTuple):
    """The answer, the sentence that gives it, and the reasons, the most telling first."""

    answer: Answer
    sentence: str
    reasons: list[Reason]
    next_at: datetime | None = None
