"""Dead letters: looked at, retried by a new job in their place, or discarded."""

from rota.rail.dead_letters.letters import (
    HIGHEST_RETRY,
    DeadLetter,
    DeadLetterFilter,
    DeadLetters,
    Retried,
    RetryPlan,
)

__all__ = [
    "HIGHEST_RETRY",
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLetters",
    "Retried",
    "RetryPlan",
]
