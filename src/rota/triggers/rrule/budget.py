"""What a search may cost, so that no line of input can keep it busy for long."""

from typing import Self

from rota.errors import NoOccurrenceError

SEARCH_STEPS = 100_000
"""For one question. A step takes a few microseconds at most."""

COUNT_STEPS = 400_000
"""For finding the last of COUNT occurrences, once for a rule."""

JUMP_STEPS = 100
"""The price of looking for the transitions of a zone."""


class Budget:
    """Counts the steps of a search, and ends it with an error when there are too many."""

    def __init__(self, text: str, steps: int) -> None:
        self._text = text
        self._steps = steps
        self.spent = 0

    @classmethod
    def for_question(cls, text: str) -> Self:
        return cls(text, SEARCH_STEPS)

    @classmethod
    def for_count(cls, text: str) -> Self:
        return cls(text, COUNT_STEPS)

    def spend(self, steps: int = 1) -> None:
        self.spent += steps
        if self.spent > self._steps:
            raise NoOccurrenceError(
                f'Gave up looking for an occurrence of "{self._text}" after {self._steps} steps',
                {"rule": self._text, "steps": self._steps},
            )
