"""Handlers that are the effect: done once for a job, whatever becomes of the attempt."""

from collections.abc import Awaitable, Callable
from functools import wraps

from rota.worker.context import Context, Discard, Snooze

Answer = Snooze | Discard | None
AsyncWork = Callable[[Context], Awaitable[object]]


class _NotDoneError(Exception):
    """The handler asked to be called later, or gave up: nothing has been done."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def effectively_once(work: AsyncWork) -> Callable[[Context], Awaitable[Answer]]:
    """A handler that does not run when what its job stands for has been done already.

    The job is then settled as done: a second attempt, because the worker died between doing and
    saying so, does nothing. What the job stands for is ``Context.effect_key``.
    """

    @wraps(work)
    async def guarded(context: Context) -> Answer:
        async def act() -> None:
            answer = await work(context)
            if isinstance(answer, Snooze | Discard):
                raise _NotDoneError(answer)

        try:
            await context.once(context.effect_key, act)
        except _NotDoneError as not_done:
            return not_done.answer
        return None

    return guarded
