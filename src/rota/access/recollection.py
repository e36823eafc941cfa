"""What was read of tokens a moment ago, so that not every request asks the store."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.access.token import KeptToken

REMEMBERED_FOR = timedelta(seconds=2)
"""A token that another process revokes is good for so much longer at most."""

MOST_REMEMBERED = 1_000


class Reading(NamedTuple):
    """A token as it was read, and when."""

    kept: KeptToken
    version: int
    read_at: datetime


class Recollection:
    """Remembers tokens that exist, for a short while, and only so many.

    Ids that nobody knows are not remembered: whoever makes them up must not fill the memory, and a
    token that was issued elsewhere must be good at once.
    """

    def __init__(
        self, remembered_for: timedelta = REMEMBERED_FOR, most: int = MOST_REMEMBERED
    ) -> None:
        self._remembered_for = remembered_for
        self._most = most
        self._readings: dict[str, Reading] = {}

    @property
    def readings(self) -> Mapping[str, Reading]:
        return self._readings

    def find(self, token_id: str, now: datetime) -> Reading | None:
        """What was read not too long ago; a clock that was set back does not make it last."""
        reading = self._readings.get(token_id)
        if reading is None or not timedelta() <= now - reading.read_at < self._remembered_for:
            return None
        return reading

    def keep(self, reading: Reading) -> None:
        self.forget(reading.kept.token.id)
        while len(self._readings) >= self._most:
            del self._readings[next(iter(self._readings))]
        self._readings[reading.kept.token.id] = reading

    def forget(self, token_id: str) -> None:
        self._readings.pop(token_id, None)
