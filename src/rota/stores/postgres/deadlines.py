"""How long statements may take."""

from asyncio import TimerHandle, get_running_loop
from datetime import timedelta
from typing import Protocol


class Waiting(Protocol):
    """Somebody who waits for an answer."""

    def give_up(self) -> None: ...


class Deadlines:
    """Tells whoever has waited too long for an answer to give up.

    There is one timer for all, which is set again only when it runs out: one for each statement
    takes longer than a good part of the statement, and hardly ever comes to its end.
    """

    def __init__(self, answer_for: timedelta) -> None:
        self.seconds = answer_for.total_seconds()
        self._begun: dict[Waiting, float] = {}
        """In the order in which they began to wait."""
        self._timer: TimerHandle | None = None

    def begin(self, waiting: Waiting) -> None:
        """From now on an answer is waited for."""
        loop = get_running_loop()
        self._begun[waiting] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._look)

    def end(self, waiting: Waiting) -> None:
        """The answer has come, or will not be waited for any longer."""
        self._begun.pop(waiting, None)

    def close(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = get_running_loop()
        latest = loop.time() - self.seconds
        self._timer = None
        for waiting, begun_at in list(self._begun.items()):
            if begun_at > latest:
                self._timer = loop.call_at(begun_at + self.seconds, self._look)
                return
            del self._begun[waiting]
            waiting.give_up()
