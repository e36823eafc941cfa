"""Flows: all jobs or none, and results passed between them."""

from typing import Any

import pytest

from rota import JobStatus, Rota
from rota.errors import AppUseError, InvalidInputError
from rota.jobs import JobFilter

app = Rota("memory://")


@app.task
async def extract(count: int) -> list[int]:
    return list(range(count))


@app.task
async def double(number: int) -> int:
    return number * 2


@app.task
async def merge(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def load(total: int) -> str:
    return f"loaded {total}"


async def _count_jobs() -> int:
    session = await app.session()
    return await session.store.count("default", JobFilter())


async def test_a_flow_is_created_at_the_end_of_its_block() -> None:
    async with app:
        async with app.flow("etl") as flow:
            numbers = [flow.add(double, each) for each in range(3)]
            total = flow.add(merge, [each.output for each in numbers])
            assert await _count_jobs() == 0
        session = await app.session()
        jobs = await session.store.get("default", [*flow.job_ids])
        assert jobs[total.id].dependencies == tuple(each.id for each in numbers)
        assert jobs[total.id].status is JobStatus.PENDING
        assert jobs[total.id].name == f"etl: {merge.name}"
        assert [*flow.job_ids] == sorted(flow.job_ids)
        assert await numbers[0].status() is JobStatus.READY


async def test_nothing_is_created_when_the_block_raises() -> None:
    async with app:
        with pytest.raises(ZeroDivisionError):
            async with app.flow() as flow:
                flow.add(double, 1 // len(flow.job_ids))
        assert await _count_jobs() == 0


async def test_a_flow_of_no_jobs_is_fine() -> None:
    async with app, app.flow() as flow:
        assert flow.job_ids == []


async def test_adding_after_the_block_is_refused() -> None:
    async with app:
        async with app.flow() as flow:
            flow.add(double, 1)
        with pytest.raises(AppUseError, match="the flow is not open"):
            flow.add(double, 2)


def test_adding_before_the_block_is_refused() -> None:
    with pytest.raises(AppUseError, match="the flow is not open"):
        app.flow().add(double, 2)


async def test_a_flow_is_for_one_block() -> None:
    async with app:
        async with app.flow() as flow:
            flow.add(double, 1)
        with pytest.raises(AppUseError, match="this flow has had its block; make another"):
            async with flow:
                pass
        with pytest.raises(AppUseError, match="this flow has had its block"), flow:
            pass


@pytest.mark.parametrize("given", [lambda: 1, double.call(1), "double", None])
async def test_only_a_task_can_be_added(given: Any) -> None:
    async with app, app.flow() as flow:
        with pytest.raises(
            InvalidInputError, match=r"task: .* is not a task; write flow.add.task,"
        ):
            flow.add(given)
        assert flow.job_ids == []


async def test_a_called_task_is_no_task() -> None:
    async with app, app.flow() as flow:
        called = double(1)
        with pytest.raises(InvalidInputError, match="task: <coroutine object double"):
            flow.add(called)  # type: ignore[arg-type]  # what is refused
        called.close()


async def test_a_task_on_another_store_cannot_be_added() -> None:
    other = Rota("sqlite:///other.db")

    @other.task(name="elsewhere")
    def elsewhere() -> None: ...

    async with app, app.flow() as flow:
        with pytest.raises(AppUseError, match=r"elsewhere belongs to an app on sqlite:///other.db"):
            flow.add(elsewhere)


async def test_options_of_one_job_come_from_using() -> None:
    async with app:
        async with app.flow(tenant="acme") as flow:
            first = flow.add(double, 1)
            last = flow.add(
                load.using(queue="slow", priority=9, on_parent_failure="run", after=[first]), 3
            )
        found = (await (await app.session()).store.get("acme", [last.id]))[last.id]
        assert (found.queue, found.priority, found.on_parent_failure) == ("slow", 9, "run")
        assert found.dependencies == (first.id,)


@pytest.mark.parametrize("options", [{"key": "x"}, {"within": object()}])
async def test_keys_and_transactions_belong_to_the_whole_flow(options: dict[str, Any]) -> None:
    async with app, app.flow() as flow:
        with pytest.raises(InvalidInputError, match="a job of a flow cannot have its own"):
            flow.add(double.using(**options), 1)


async def test_a_fan_in_of_ten_thousand_is_one_insert() -> None:
    async with app:
        async with app.flow() as flow:
            parts = [flow.add(double, each) for each in range(10_000)]
            total = flow.add(merge, [each.output for each in parts])
        session = await app.session()
        found = (await session.store.get("default", [total.id]))[total.id]
        assert len(found.dependencies) == 10_000
        assert found.payload == {"numbers": {"$outputs": [0, 10_000]}}
