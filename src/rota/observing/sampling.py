"""Looks at a store again and again, for metrics."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from rota.clock.protocol import Clock
from rota.errors import InvalidInputError, StoreError
from rota.observing.standing import Standing

Look = Callable[[], Awaitable[Standing]]
Show = Callable[[Standing | None], object]

SAMPLED_EVERY = timedelta(seconds=30)


class Sampler:
    """Hands every so often to ``show`` what ``look`` finds, or None when the store is at fault."""

    def __init__(
        self, look: Look, show: Show, clock: Clock, every: timedelta = SAMPLED_EVERY
    ) -> None:
        if every <= timedelta(0):
            raise InvalidInputError(
                f"every must be longer than no time, got {every}", {"field": "every"}
            )
        self._look = look
        self._show = show
        self._clock = clock
        self._every = every

    async def run(self) -> None:
        """Look at once and then again and again, until cancelled."""
        while True:
            await self.run_once()
            await self._clock.sleep(self._every)

    async def run_once(self) -> Standing | None:
        """Look once; a store that cannot be asked is shown as that."""
        try:
            standing: Standing | None = await self._look()
        except StoreError:
            standing = None
        self._show(standing)
        return standing
