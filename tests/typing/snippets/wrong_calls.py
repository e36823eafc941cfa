"""Wrong calls: mypy and pyright must each complain about every line that ends in ``# error``."""

from rota import Context, JobHandle, Rota

app = Rota("memory://")


@app.task
async def fetch(url: str, *, tries: int = 3) -> bytes:
    return url.encode() * tries


@app.task
def measure(page: bytes) -> int:
    return len(page)


@app.task(queue="slow")
async def merge(sizes: list[int]) -> int:
    return sum(sizes)


@app.task
async def remind(context: Context, text: str) -> None:
    context.log.info(text)


class Mailer:
    @app.task
    @staticmethod
    async def send(to: str) -> bool:
        return bool(to)


async def wrong_calls() -> None:
    await fetch.enqueue(7)  # error
    await fetch.enqueue()  # error
    await fetch.enqueue("x", 3)  # error
    await fetch.enqueue("x", tries="many")  # error
    await fetch.enqueue(link="x")  # error
    fetch.enqueue_sync(b"x")  # error
    await fetch(7)  # error
    measure("x")  # error

    page = await fetch.enqueue("x")
    size = await measure.enqueue(page.output)
    number: int = await page.result()  # error
    text: str = page.result_sync()  # error
    other: JobHandle[str] = page  # error
    await page.result(timeout=30)  # error
    await measure.enqueue(size.output)  # error
    await merge.enqueue([page.output])  # error
    await merge.enqueue(size.output)  # error

    await fetch.using(delay=10).enqueue("x")  # error
    await fetch.using(queue=1).enqueue("x")  # error
    await fetch.using(colour="red").enqueue("x")  # error
    await fetch.using(delay="10m").enqueue(7)  # error
    fetch.using(key="k").enqueue_sync()  # error

    fetch.call(7)  # error
    await fetch.enqueue_many(["x"])  # error
    await fetch.enqueue_many([measure.call(b"x")])  # error
    await fetch.using(key="k").enqueue_many([measure.call(b"x")])  # error

    await remind.enqueue()  # error
    await remind.enqueue(text=3)  # error
    await Mailer.send.enqueue(to=3)  # error
    del number, text, other


async def wrong_flows() -> None:
    async with app.flow() as flow:
        page = flow.add(fetch, "x")
        flow.add(measure, page)  # error
        flow.add(merge, [page.output])  # error
        flow.add(fetch.using(queue="slow"), 3)  # error
        flow.add(fetch)  # error
        flow.add(fetch.using(on_parent_failure="explode"), "x")  # error


@app.task(colour="red")  # error
async def painted() -> None: ...


@app.task(run_in="space")  # error
def floating() -> None: ...
