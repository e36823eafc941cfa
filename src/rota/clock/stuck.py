"""Where tasks wait, in words, for whoever has to find out why nothing moves."""

import asyncio
from asyncio import AbstractEventLoop
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any

_NOT_THE_READERS = (str(Path(asyncio.__file__).parent), str(Path(__file__).parent))


def describe_tasks(loop: AbstractEventLoop) -> tuple[str, ...]:
    """One line for each task of the loop but the current: its name and the line it stands at."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    in_order = sorted(tasks, key=lambda task: (len(task.get_name()), task.get_name()))
    return tuple(f"{task.get_name()} at {_place(task)}" for task in in_order)


def describe_frame(frame: FrameType) -> str:
    """``file:line in function``, and the line's text where it can be read."""
    path, line, name = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    text = getline(path, line).strip()
    return f"{path}:{line} in {name}" + (f": {text}" if text else "")


def _place(task: "asyncio.Task[Any]") -> str:
    """The innermost line that is neither asyncio's nor this package's."""
    frames = _frames(task.get_coro())
    own = [frame for frame in frames if not frame.f_code.co_filename.startswith(_NOT_THE_READERS)]
    return describe_frame((own or frames)[-1]) if frames else "an unknown line"


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
