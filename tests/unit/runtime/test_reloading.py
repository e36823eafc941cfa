"""Files that change while somebody watches; no time passes but made-up time."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rota.runtime.user_modules import LOOKED_EVERY, FileWatch
from rota.testing import VirtualClock

NOW = datetime(2027, 3, 26, 12, tzinfo=UTC)


async def test_a_changed_file_is_noticed_at_the_next_look(tmp_path: Path) -> None:
    clock, file = VirtualClock(NOW), tmp_path / "jobs.py"
    file.write_text("one", encoding="utf-8")
    watching = asyncio.create_task(FileWatch(lambda: {file}, clock).wait_for_change())
    await clock.advance(timedelta(minutes=5))
    assert not watching.done()
    file.write_text("another", encoding="utf-8")
    await clock.advance(LOOKED_EVERY)
    assert await watching == {file}
    assert clock.now() == NOW + timedelta(minutes=5) + LOOKED_EVERY


async def test_files_that_come_and_go_are_changes(tmp_path: Path) -> None:
    clock = VirtualClock(NOW)
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("old", encoding="utf-8")
    watched = {old}
    watching = asyncio.create_task(FileWatch(lambda: watched, clock).wait_for_change())
    await clock.advance(LOOKED_EVERY)
    old.unlink()
    new.write_text("new", encoding="utf-8")
    watched.clear()
    watched.add(new)
    await clock.advance(LOOKED_EVERY)
    assert await watching == {old, new}
