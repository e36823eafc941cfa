"""Apps: declaring tasks, opening, enqueueing and running them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota import JobStatus, Rota
from rota.errors import (
    AppUseError,
    InvalidArgumentsError,
    InvalidInputError,
    InvalidStoreUrlError,
    TaskDeclarationError,
)
from rota.ops.kinds import read_kinds
from rota.worker import Context
from rota.worker.context import CallNext

app = Rota("memory://")


@app.task
async def send_welcome(user_id: int, locale: str = "en") -> str:
    return f"welcome sent to {user_id} in {locale}"


@app.task(queue="slow-lane.eu:1", retry=5, timeout="1m")
def count_letters(ctx: Context, text: str) -> int:
    """Count the letters."""
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


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"key": 5}, "key must be a text, got int"),
        ({"key": ""}, "key must have 1 to 255 characters"),
        ({"after": send_welcome.handle("x")}, r"after: .* is not a list of jobs; write \[job\]"),
        ({"after": "01890a5d-ac96-774b-bcce-b302099a8057"}, "after: .* is not a list of jobs"),
    ],
)
def test_a_wrong_option_of_one_job_is_refused_by_its_name(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        send_welcome.using(**options)


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


async def test_the_app_stays_open_while_anyone_uses_it() -> None:
    first_left, second_entered = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with app:
            await second_entered.wait()
        first_left.set()

    async def second() -> JobStatus:
        async with app:
            second_entered.set()
            await first_left.wait()
            return await (await send_welcome.enqueue(7)).status()

    _, status = await asyncio.gather(first(), second())
    assert status is JobStatus.READY
    with pytest.raises(AppUseError, match="async with app"):
        await app.session()


async def test_a_worker_runs_while_the_context_lasts() -> None:
    async with app.working():
        job = await send_welcome.enqueue(user_id=7, locale="de")
        assert await job.result() == "welcome sent to 7 in de"


async def test_middleware_and_lifespan_of_the_app_surround_each_run() -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        yield "pool"

    async def note(context: Context, call_next: CallNext) -> object:
        seen.append(context.state)
        return await call_next()

    ours = Rota("memory://", lifespan=lifespan, middleware=[note])
    double = ours.task(name="double")(_double)
    async with ours.working():
        assert await (await double.enqueue(4)).result() == 8
    assert seen == ["pool"]


def _double(number: int) -> int:
    return number * 2


async def test_a_served_app_publishes_its_kinds() -> None:
    async with app.working() as session:
        kinds = await read_kinds(session.store)
    entry = kinds[count_letters.name]
    assert (entry.queue, entry.priority, entry.notifies) == ("slow-lane.eu:1", 5, False)
    assert entry.schema["required"] == ["text"]
    assert entry.result == {"type": "integer"}
    assert entry.doc == "Count the letters."


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"queue": "my queue"}, "queue must be 1 to 64 of the characters"),
        ({"priority": 11}, "priority must be from 1 to 10, got 11"),
        ({"retry": 11}, "retry.max_attempts must be from 1 to 10, got 11"),
        ({"retry": {"max_tries": 1}}, "retry.max_tries is not a field"),
        ({"timeout": 3}, "timeout: 3 is not a length of time"),
        ({"timeout": "0s"}, "timeout: '0s' is not longer than zero"),
        ({"unique": ["nobody"]}, "unique: 'nobody' is not a parameter"),
        ({"unique": 3}, "unique: 3 is not valid; write True, or names of parameters"),
        ({"keep_result": "no"}, "keep_result must be true or false, got str"),
        ({"name": "two words"}, "name must be 1 to 200 of the characters"),
        ({"run_in": "process"}, ".*is for plain functions"),
        ({"run_in": "thread"}, 'run_in="thread" is for plain functions, and this one is async'),
        ({"run_in": "proces"}, "run_in: 'proces' is not valid; use thread or process"),
        ({"colour": "red"}, "colour is not an option of a task; there are name, queue, priority"),
    ],
)
def test_a_wrong_option_names_the_function_and_the_line(
    options: dict[str, object], reason: str
) -> None:
    ours = Rota("memory://")
    with pytest.raises(TaskDeclarationError, match=rf"_send at .*test_app.py:\d+: {reason}"):
        ours.task(**options)(_send)  # type: ignore[call-overload]  # what is refused


def test_what_is_typed_in_again_replaces_what_it_was() -> None:
    ours = Rota("memory://")
    typed: dict[str, Any] = {"__name__": "__main__", "app": ours}
    cell = "@app.schedule('@daily')\ndef run(count: int = {}) -> int: return count"
    for count in (1, 2):
        exec(compile(cell.format(count), "ipykernel_7/1.py", "exec"), typed)  # noqa: S102
    assert typed["run"]() == 2
    assert [it.task for it in ours.schedules] == [*ours.tasks.values()] == [typed["run"]]


def test_a_child_process_cannot_call_a_lambda_or_an_inner_function() -> None:
    ours = Rota("memory://")

    def inner() -> None: ...

    for function, what in ((lambda: None, "a lambda"), (inner, "defined inside another function")):
        with pytest.raises(TaskDeclarationError, match=f"it is {what}"):
            ours.task(run_in="process")(function)


def test_a_generator_cannot_be_a_task() -> None:
    def produce() -> Iterator[int]:
        yield 1

    with pytest.raises(TaskDeclarationError, match="it is a generator function"):
        Rota("memory://").task(produce)


async def _trace(_: Context, call_next: CallNext) -> Any:
    return await call_next()


class Greeter:
    def __call__(self, to: str) -> None: ...


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (5, "it is not a function"),
        (dict, "it is a class, not a function"),
        (
            partial(count_letters.function, text="a"),
            "it is not a function; write one with def that",
        ),
        (Greeter(), "it is not a function; write one with def that calls it"),
        (lambda: None, r"so 'tests.*<lambda>' is none; give it one: @app.task\(name=...\)"),
        (send_welcome, f"it is the task {send_welcome.name} already; write @app.schedule above"),
    ],
)
def test_what_is_no_function_cannot_be_a_task(given: Any, reason: str) -> None:
    with pytest.raises(TaskDeclarationError, match=reason):
        Rota("memory://").task(given)


def test_static_and_bound_methods_can_be_tasks() -> None:
    ours = Rota("memory://")

    class Mailer:
        @ours.task
        @staticmethod
        def send(to: str) -> str:
            return to

        def greet(self, name: str) -> str:
            return f"hello {name}"

    greet = ours.task(name="greet")(Mailer().greet)
    assert Mailer.send("ada") == "ada"
    assert Mailer.send.name.endswith("Mailer.send")
    assert greet("ada") == "hello ada"
    assert greet.signature.bind(("ada",), {}).payload == {"name": "ada"}


def test_another_store_can_be_chosen_before_the_app_is_opened(tmp_path: Path) -> None:
    ours = Rota("memory://")
    send = ours.task(name="send")(_send)
    ours.use_store(f"sqlite:///{tmp_path}/other.db")
    send.enqueue_sync("ada")
    ours.sessions.close_bridge()
    assert (tmp_path / "other.db").exists()


def test_an_address_that_names_no_store_is_refused_at_once() -> None:
    with pytest.raises(InvalidStoreUrlError):
        Rota("oracle://localhost")


def test_what_is_not_an_address_is_refused() -> None:
    with pytest.raises(InvalidStoreUrlError, match=r"it is not a text but a PosixPath"):
        Rota(Path("rota.db"))  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"zone": 5}, "zone: 5 has no IANA name"),
        ({"middleware": _trace}, "middleware: .*_trace.* is not a list of functions"),
        ({"middleware": [5]}, r"middleware: \[5\] is not a list of functions"),
        ({"lifespan": 5}, "lifespan: 5 is not a function"),
        ({"settings": {"concurrency": 5}}, "settings: .* are not WorkerSettings"),
    ],
)
def test_a_wrong_option_of_an_app_is_refused_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        Rota("memory://", **options)


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE", "sqlite:///elsewhere.db")
    assert Rota().store_url == "sqlite:///elsewhere.db"
    monkeypatch.delenv("ROTA_STORE")
    assert Rota().store_url == "sqlite:///rota.db"
