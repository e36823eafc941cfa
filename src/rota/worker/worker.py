"""Runs jobs: lease, gate, handler, settle."""

import os
from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import timedelta
from random import Random
from typing import Any, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import WorkerBusyError, WorkerForkedError
from rota.events import EventEmitter
from rota.fleet.identity import make_process_name
from rota.policy.gate_watch import GateWatch
from rota.policy.limit_watch import LimitWatch
from rota.worker.loops.settling import Settled
from rota.worker.registry import Registry, Work
from rota.worker.running.shift import Shift, StopReport
from rota.worker.settings import WorkerSettings
from rota.worker.surroundings import Surroundings, WorkerStore

AnyWork = TypeVar("AnyWork", bound=Work)


class _Call:
    """A run that was asked for and has not begun: how often it was told to stop by then."""

    def __init__(self) -> None:
        self.stop_count = 0


class Worker:
    """Takes due jobs from a store and has handlers do them, each at least once.

    A handler is called with a ``Context``. It may be a coroutine function or a plain one, which
    runs in a thread. If it returns, its job is done; unless it returns a ``Snooze``, to be called
    again later, or a ``Discard``, to give up for good. Any other value is ignored. If it raises,
    the job is tried again as its retry policy says. Jobs whose kind is in ``notifies`` tell people
    something, and quiet hours hold them back. Maintenance, quiet hours and limits that are kept in
    the store are minded by themselves, besides the gate in ``settings``.

    A worker belongs to the process and, while it runs, to the event loop in which it is used.
    ``random`` is what all jitter is drawn from; seed it for a run that can be repeated.
    """

    def __init__(
        self,
        store: WorkerStore,
        handlers: Mapping[str, Work] | None = None,
        *,
        clock: Clock | None = None,
        notifies: Collection[str] = (),
        settings: WorkerSettings | None = None,
    ) -> None:
        self.events = EventEmitter("rota.worker")
        self.name = make_process_name()
        self.random = Random()  # noqa: S311 - jitter is no secret
        self._store = store
        self._clock = clock or SystemClock()
        self._settings = _minding_the_store(settings or WorkerSettings(), store)
        self._handlers = Registry(handlers, notifies)
        self._shift: Shift | None = None
        self._calls: WeakSet[_Call] = WeakSet()  # one whose coroutine is thrown away goes with it
        self._process_id = os.getpid()

    def __repr__(self) -> str:
        state = "idle" if self._shift is None else "running"
        return f"<Worker {self.name}, {state}>"

    @property
    def is_running(self) -> bool:
        return self._shift is not None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of jobs that have a handler here, as of now."""
        return frozenset(self._handlers)

    def handler(
        self, kind: str, *, notifies: bool = False, timeout: timedelta | None = None
    ) -> Callable[[AnyWork], AnyWork]:
        """Have the decorated function do the work of jobs of this kind.

        An attempt that takes longer than ``timeout`` is cut short, and has failed.
        """

        def register(work: AnyWork) -> AnyWork:
            self._handlers.add(kind, work, notifies=notifies, timeout=timeout)
            return work

        return register

    def run(self) -> Coroutine[Any, Any, StopReport]:
        """Work until ``stop``, and say how it ended.

        A worker stops by itself when as many handlers as it has places, and three at least, were
        cut short and will not end: the ``manner`` is then ``WORN_OUT``, and its process should end.

        Cancelling it hands back all jobs at once. Raises StoreClosedError when the store is closed;
        one that cannot be reached is waited for.
        """
        return self._run(self._note_call())

    def run_once(self) -> Coroutine[Any, Any, list[Settled]]:
        """Lease one batch of due jobs, run them, and return what became of each, once written.

        For tests, and for programs that are started anew for every batch. Stalled jobs are not
        looked for. Where a job has to run alone, those leased after it are handed back.
        """
        return self._run_once(self._note_call())

    def stop(self) -> None:
        """Lease nothing more at once, and have ``run`` return when what runs has ended.

        What has not ended after the grace is handed back, and no attempt is spent. Called again,
        it is handed back now. A ``run`` that was called, as in ``create_task(worker.run())``, is
        stopped even if it has not begun; a later one is not. To be called in the event loop's
        thread.
        """
        self._refuse_when_forked()
        for call in self._calls:
            call.stop_count += 1
        if self._shift is not None:
            self._shift.stop()

    def _note_call(self) -> _Call:
        call = _Call()
        self._calls.add(call)
        return call

    async def _run(self, call: _Call) -> StopReport:
        self._calls.discard(call)
        shift = self._begin()
        try:
            for _ in range(call.stop_count):
                shift.stop()
            return await shift.run()
        finally:
            self._shift = None

    async def _run_once(self, call: _Call) -> list[Settled]:
        self._calls.discard(call)
        shift = self._begin()
        try:
            return [] if call.stop_count else await shift.run_once()
        finally:
            self._shift = None

    def _begin(self) -> Shift:
        self._refuse_when_forked()
        if self._shift is not None:
            raise WorkerBusyError
        surroundings = Surroundings(
            self._store,
            self._clock,
            self._settings,
            self._handlers,
            self.events,
            self.random,
            self.name,
        )
        self._shift = Shift(surroundings)
        return self._shift

    def _refuse_when_forked(self) -> None:
        if os.getpid() != self._process_id:
            raise WorkerForkedError(self._process_id, os.getpid())


def _minding_the_store(settings: WorkerSettings, store: WorkerStore) -> WorkerSettings:
    """The settings with what is kept in the store: nobody has to remember that it may be there."""
    gate, limits = settings.gate, settings.limits
    if not isinstance(gate, GateWatch):
        gate = GateWatch(store, more=() if gate is None else (gate,))
    return replace(settings, gate=gate, limits=limits or LimitWatch(store))
