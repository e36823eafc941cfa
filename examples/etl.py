"""Extract, transform a thousand parts, merge, load: one flow, created all or not at all.

Each step runs as a job of its own, on any worker. A step that has completed never runs again,
even if a process is killed. It prints:

    1000 parts, 2999000 in all
"""

import asyncio

from rota import Rota

app = Rota()  # $ROTA_STORE, or else sqlite:///rota.db


@app.task
async def extract(first: int) -> list[int]:
    return list(range(first, first + 1000))


@app.task
async def transform(rows: list[int], number: int) -> int:
    return 2 * rows[number]


@app.task
async def merge(parts: list[int]) -> tuple[int, int]:
    return len(parts), sum(parts)


@app.task
def load(merged: tuple[int, int]) -> str:
    return f"{merged[0]} parts, {merged[1]} in all"


async def main() -> None:
    async with app.working():
        async with app.flow("etl") as flow:
            rows = flow.add(extract, 1000)
            parts = [flow.add(transform, rows.output, number) for number in range(1000)]
            loaded = flow.add(load, flow.add(merge, [part.output for part in parts]).output)
        print(await loaded.result())


if __name__ == "__main__":
    asyncio.run(main())
