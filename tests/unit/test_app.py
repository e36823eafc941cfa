"""Apps: declaring tasks, opening, enqueueing and running them."""

import asyncio

import pytest

from rota import JobStatus, Rota
from rota.errors import AppUseError, InvalidArgumentsError, TaskDeclarationError
from rota.worker import Context

app = Rota("memory://")


@app.task
async def send_welcome(user_id: int, locale: str = "en") -> str:
    return f"welcome sent to {user_id} in {locale}"


@app.task(queue="slow", retry=5, timeout="1m")
def count_letters(ctx: Context, text: str) -> int:
    return len(text) + 0 * ctx.attempt


async def test_a_task_is_still_the_plain_function() -> None:
    assert await send_welcome(7) == "welcome sent to 7 in en"


async def test_an_enqueued_task_runs() -> None:
    async with app:
        welcome = await send_welcome.enqueue(user_id=7)
        letters = await count_letters.enqueue("abc")
        settled = await app.worker().run_once()
        assert {each.job.id for each in settled} == {welcome.id, letters.id}
        assert await welcome.status() is JobStatus.COMPLETED
        assert await letters.status() is JobStatus.COMPLETED


async def test_a_wrong_argument_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentsError, match="user_id: 'seven' is not valid: expected int"):
        await send_welcome.enqueue(user_id="seven")  # type: ignore[arg-type]  # the wrong type


async def test_an_unknown_argument_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentsError, match="usr: is not a parameter of the task"):
        await send_welcome.enqueue(usr=7)  # type: ignore[call-arg]  # the wrong name


def test_two_tasks_of_one_name_are_refused() -> None:
    ours = Rota("memory://")
    ours.task(name="mail.send")(_send)
    with pytest.raises(TaskDeclarationError, match=r"_send at .*test_app.py:\d+.*'mail.send'"):
        ours.task(name="mail.send")(_send)


async def _send(to: str) -> None: ...


async def test_a_worker_needs_an_open_app() -> None:
    with pytest.raises(AppUseError, match="async with app"):
        app.worker()


async def test_a_thread_can_enqueue_into_an_app_that_is_open_elsewhere() -> None:
    async with app:
        job = await asyncio.to_thread(send_welcome.enqueue_sync, user_id=8)
        assert await job.status() is JobStatus.READY
