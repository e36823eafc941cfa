"""The poller: start, stop, and what it is doing."""

from typing import Self, Unpack

from rota.errors import ConflictError, InvalidInputError
from rota.poller.protocol import PollableStore
from rota.poller.records import PolledJobs
from rota.poller.run import Run
from rota.poller.settings import PollerOptions, PollerSettings
from rota.stores.protocol import DocumentStore

_VERBS = ("lock_next", "update", "remove")


class Poller:
    """Processes documents one after the other, each when its time has come.

    ``store`` is what ``open_store`` gives, whose jobs are those of ``PolledJobs(store)``, or any
    ``PollableStore``, such as a collection of MongoDB. Any number of pollers, in any number of
    processes, may share one: each document is processed by one of them at a time. Whatever goes
    wrong is told to ``on_error``, and the poller goes on.
    """

    def __init__(
        self, store: PollableStore | DocumentStore, **options: Unpack[PollerOptions]
    ) -> None:
        self._settings = PollerSettings(**options)
        self._store = _read_store(store, self._settings)
        self._run: Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not been stopped."""
        return self._run is not None and not (self._run.is_over or self._run.is_ending)

    @property
    def is_processing(self) -> bool:
        """Whether it has a document in hand."""
        return self._run is not None and self._run.is_processing

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do when it last looked."""
        return self._run is not None and self._run.is_idle

    async def start(self) -> None:
        """Begin, and return when ``on_start`` has ended; what that raises is raised here.

        Starting what runs does nothing. One that is being stopped is waited for, and then started
        anew; but not by its own hooks, which get a ConflictError.
        """
        while self._run is not None and self._run.is_ending and not self._run.is_over:
            if self._run.is_inside:
                raise ConflictError("The poller is stopping; its own hooks cannot start it again")
            await self._run.settled()
        run = self._run
        is_new = run is None or run.is_over
        if run is None or is_new:
            self._run = run = Run(self._store, self._settings)
            run.launch()
        if not run.is_inside:
            await run.started(is_asked_for=is_new)

    async def stop(self) -> None:
        """Take no more documents, and return when ``on_stop`` has ended.

        The document in hand is finished first, however long it takes; cancelling the call gives up
        the waiting, not the stop. What ``on_stop`` raises is raised here. A hook that calls it is
        not waited for: the stop follows when the hook has ended. Stopping what does not run does
        nothing.
        """
        run = self._run
        if run is None or run.is_over:
            return
        run.end()
        if not run.is_inside:
            await run.ended()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _read_store(store: object, settings: PollerSettings) -> PollableStore:
    if all(callable(getattr(store, verb, None)) for verb in _VERBS):
        return store  # type: ignore[return-value]  # whoever has the verbs is taken at their word
    if all(callable(getattr(store, verb, None)) for verb in ("scan", "read", "write_all")):
        return PolledJobs(store, clock=settings.clock)  # type: ignore[arg-type]  # likewise
    reason = f"must have the verbs {', '.join(_VERBS)}, or be opened by open_store"
    raise InvalidInputError(
        f"store {reason}, got {store!r:.40}", {"field": "store", "reason": reason}
    )
