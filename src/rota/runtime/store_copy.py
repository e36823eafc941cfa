"""Copies everything from one store to another."""

from rota.clock.protocol import Clock
from rota.ops.store_comparison import MarkedTarget, ShowProgress, refuse_same_store
from rota.ops.store_copy import (
    CopyPlan,
    CopyReport,
    check_idle,
    copy_everything,
    plan_copy,
    recognise_copy,
)
from rota.runtime.wiring import find_backend, open_store


async def plan_store_copy(source_url: str, target_url: str) -> CopyPlan:
    """What ``copy_store`` would do. Raises what it would raise before anything is written.

    Does not check whether the source is in use.
    """
    source, target = find_backend(source_url), find_backend(target_url)
    return plan_copy(await source.inspect(), await target.inspect())


async def copy_store(
    source_url: str,
    target_url: str,
    clock: Clock,
    show_progress: ShowProgress,
    *,
    is_forced: bool = False,
) -> CopyReport:
    """Copy everything from one store to an empty one, and compare them.

    The source is only read. ``open_store`` refuses the target until the copy is found equal. A
    repeated call continues an interrupted copy, and recognises a finished one. A source in use is
    refused, unless ``is_forced``. Raises CopyRefusedError, and CopyDiffersError when something was
    not copied or has changed meanwhile.
    """
    plan = await plan_store_copy(source_url, target_url)
    async with await open_store(source_url) as source:
        if not is_forced:
            await check_idle(source, await source.read_clock() or clock.now())
        async with await find_backend(target_url).open() as target:
            await refuse_same_store(source, target)
            if plan.is_repetition:
                return await recognise_copy(source, target, show_progress)
            now = await target.read_clock() or clock.now()
            marked = await MarkedTarget.begin(target, plan.source.address)
            return await copy_everything(source, target, marked, now, show_progress)
