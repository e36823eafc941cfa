"""Right calls: neither mypy nor pyright may complain about a line of this file."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_type

from rota import Context, JobHandle, JobStatus, RetryPolicy, Rota, Task

app = Rota("memory://")


@dataclass
class Page:
    url: str
    size: int


@app.task
async def fetch(url: str, *, tries: int = 3) -> Page:
    return Page(url, tries)


@app.task
def measure(page: Page) -> int:
    return page.size


@app.task(name="pages.merge", queue="slow", retry=RetryPolicy(max_attempts=2), timeout="1h")
async def merge(sizes: list[int], labels: dict[str, str] | None = None) -> int:
    return sum(sizes) + len(labels or {})


@app.task(retry={"max_attempts": 5}, priority=9, notifies=True, unique=True, keep_result=False)
def remind(context: Context, text: str) -> None:
    context.log.info(text)


@app.task
async def report(context: Context, text: str) -> str:
    return f"{text} {context.attempt}"


class Mailer:
    @app.task
    @staticmethod
    async def send(to: str) -> bool:
        return bool(to)

    def greet(self, name: str) -> str:
        return f"hello {name}"


greet = app.task(Mailer().greet)


@app.schedule("*/5 * * * *")
async def refresh() -> None: ...


@app.schedule(timedelta(minutes=5), name="often", zone="Europe/London", catch_up="skip")
@app.task(queue="rates")
async def refresh_often(currency: str = "EUR") -> None: ...


async def right_calls() -> None:
    assert_type(await fetch("x", tries=4), Page)
    assert_type(measure(Page("x", 1)), int)

    page = await fetch.enqueue("https://example.com", tries=2)
    assert_type(page, JobHandle[Page])
    assert_type(await page.result(), Page)
    assert_type(await page.result(timeout="30s"), Page)
    assert_type(page.result_sync(timeout=timedelta(seconds=3)), Page)
    assert_type(await page.status(), JobStatus)
    assert_type(page.status_sync(), JobStatus)
    assert_type(await page.retry(), JobHandle[Page])
    assert_type(page.output, Page)
    assert_type(page.id, str)
    assert_type(fetch.handle(page.id), JobHandle[Page])

    size = await measure.enqueue(page.output)
    assert_type(size, JobHandle[int])
    assert_type(await merge.enqueue([size.output, 4]), JobHandle[int])
    assert_type(await merge.enqueue(sizes=[size.output], labels={"a": "b"}), JobHandle[int])


async def right_calls_with_options(page: JobHandle[Page]) -> None:
    assert_type(fetch.enqueue_sync(url="x"), JobHandle[Page])
    assert_type(
        await fetch.using(
            delay="10m", queue="slow", priority=9, key="x", tenant="a", after=[page], retry=3
        ).enqueue("x"),
        JobHandle[Page],
    )
    assert_type(measure.using(at=datetime.now(UTC)).enqueue_sync(page.output), JobHandle[int])

    wide: JobHandle[Page | None] = page
    assert_type(wide.id, str)

    assert_type(
        await fetch.enqueue_many([fetch.call("x"), fetch.call(url="y")]), list[JobHandle[Page]]
    )
    assert_type(
        fetch.using(delay=timedelta(1)).enqueue_many_sync([fetch.call("x")]), list[JobHandle[Page]]
    )


async def right_calls_of_other_functions() -> None:
    assert_type(await remind.enqueue("tea"), JobHandle[None])
    assert_type(await report.enqueue(text="tea"), JobHandle[str])
    assert_type(await Mailer.send.enqueue(to="ada"), JobHandle[bool])
    assert_type(greet.enqueue_sync("ada"), JobHandle[str])
    assert_type(await refresh.enqueue(), JobHandle[None])
    assert_type(await refresh_often.enqueue(currency="GBP"), JobHandle[None])
    await refresh_often()


async def right_flows() -> None:
    async with app.flow("pages") as flow:
        page = flow.add(fetch, "x", tries=1)
        size = flow.add(measure.using(queue="slow", on_parent_failure="run"), page.output)
        assert_type(size, JobHandle[int])
        assert_type(flow.add(merge, [size.output]), JobHandle[int])
    with app.flow() as blocking:
        blocking.add(refresh)


def takes_any_task(task: Task[[str], Page]) -> None:
    assert_type(task.enqueue_sync("x"), JobHandle[Page])
