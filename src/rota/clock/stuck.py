"""Where tasks wait, in words, for whoever has to find out why nothing moves."""

import asyncio
import sysconfig
from asyncio import AbstractEventLoop
from collections.abc import Sequence
from linecache import getline
from pathlib import Path
from traceback import walk_stack
from types import FrameType

_NOT_THE_READERS = (sysconfig.get_path("stdlib"), str(Path(__file__).parent), "<frozen")


def describe_tasks(loop: AbstractEventLoop) -> tuple[str, ...]:
    """One line for each task of the loop but the current: its name and the line it stands at."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    in_order = sorted(tasks, key=lambda task: (len(task.get_name()), task.get_name()))
    return tuple(f"{task.get_name()} at {_place(_frames(task.get_coro()))}" for task in in_order)


def describe_stack(innermost: FrameType | None) -> str:
    """The line a thread stands at, found from its innermost frame."""
    return _place([frame for frame, _ in walk_stack(innermost)][::-1] if innermost else [])


def _place(frames: Sequence[FrameType]) -> str:
    """The innermost line that is neither the standard library's nor this package's."""
    own = [frame for frame in frames if not _is_library(frame.f_code.co_filename)]
    return _describe((own or frames)[-1]) if frames else "an unknown line"


def _is_library(path: str) -> bool:
    return path.startswith(_NOT_THE_READERS) and "site-packages" not in path


def _describe(frame: FrameType) -> str:
    path, line, name = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    text = getline(path, line).strip()
    return f"{path}:{line} in {name}" + (f": {text}" if text else "")


def _frames(awaited: object) -> list[FrameType]:
    """The frames of a suspended coroutine, outermost first, through all that it awaits."""
    frames = []
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if isinstance(frame, FrameType):
            frames.append(frame)
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return frames


def _first(thing: object, *names: str) -> object:
    return next((found for name in names if (found := getattr(thing, name, None))), None)
