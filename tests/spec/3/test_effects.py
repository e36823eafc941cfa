"""Effects of handlers that keep their work in the database of the store."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from rota import open_store
from rota.rail import Rail
from rota.testing import VirtualClock
from rota.worker import Context, Worker

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ENOUGH = timedelta(hours=1)


async def test_a_handler_commits_its_work_once_wherever_it_is_cut_short(tmp_path: Path) -> None:
    """Before the commit all is undone, after it nothing is repeated."""
    path, clock = tmp_path / "shop.db", VirtualClock(NOW)
    results: list[object] = []

    async def pay_out(ctx: Context) -> None:
        def book() -> int:
            shop.execute("INSERT INTO payouts VALUES (?)", (ctx.attempt,))
            return ctx.attempt

        with shop:
            results.append(await ctx.once_within(shop, ctx.effect_key, book))
            if ctx.attempt == 1:
                raise ConnectionError("before the commit")
        if ctx.attempt == 2:
            raise ConnectionError("after the commit")

    async with await open_store(f"sqlite:///{path}") as store:
        shop = apsw.Connection(str(path))
        shop.execute("CREATE TABLE payouts (attempt INTEGER)")
        rail = Rail(store, "guild-7", clock=clock)
        job_id = await rail.schedule_once("pay", {}, run_at=NOW)
        worker = Worker(store, {"pay": pay_out}, clock=clock)
        for _ in range(3):
            await worker.run_once()
            await clock.advance(ENOUGH)
        assert (await rail.get(job_id)).state == "done"
        assert results == [1, 2, 2]
        assert list(shop.execute("SELECT attempt FROM payouts")) == [(2,)]
        shop.close()
