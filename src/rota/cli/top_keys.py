"""The keys of ``rota top``: what each does to the screen, and how they are read from a terminal."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

SORTS = ("queue", "due", "later", "running", "stalled", "dead", "oldest")
"""Columns that the queues can be sorted by; all but the name with the largest first."""

NAMES = {"later": "not due"}
"""What a column is called, if not by its field."""

HELP = "q quit  p pause  s sort  r reverse  / filter  j k select  enter jobs of the queue  esc back"
TYPING_HELP = "type a part of the queue's name  enter keep  esc clear"

ENTER, ESCAPE, BACKSPACE = "enter", "esc", "backspace"
UP, DOWN = "up", "down"
_NAMES = {"\r": ENTER, "\n": ENTER, "\x1b": ESCAPE, "\x7f": BACKSPACE, "\x08": BACKSPACE}
_SEQUENCES = {"\x1b[A": UP, "\x1bOA": UP, "\x1b[B": DOWN, "\x1bOB": DOWN}
_LONGEST_FILTER = 64


@dataclass(frozen=True, slots=True)
class Screen:
    """What the viewer has chosen.

    ``selected`` is a row of the queues as they are shown. ``opened`` is the queue whose jobs are
    shown instead of the overview. While ``is_typing``, keys go to the filter.
    """

    sort: str = SORTS[0]
    is_reversed: bool = False
    text: str = ""
    selected: int = 0
    opened: str | None = None
    is_typing: bool = False
    is_paused: bool = False
    is_over: bool = False

    def arrange(self, queues: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The queues that match the filter, in the order of the screen."""
        found = [it for it in queues if self.text.casefold() in str(it["queue"]).casefold()]
        if self.sort == SORTS[0]:
            return sorted(found, key=lambda it: str(it["queue"]), reverse=self.is_reversed)
        found.sort(key=lambda it: str(it["queue"]))
        return sorted(found, key=self._measure, reverse=not self.is_reversed)

    def _measure(self, queue: dict[str, Any]) -> float:
        field = "late_seconds" if self.sort == "oldest" else f"{self.sort}_count"
        return float(queue[field])


def press(screen: Screen, key: str, shown: Sequence[str]) -> Screen:
    """The screen after a key; ``shown`` are the names of the queues in the order of the screen."""
    if screen.is_typing:
        return _type(screen, key)
    if key in _COMMANDS:
        return _COMMANDS[key](screen)
    return _move(screen, key, shown)


def _sort(screen: Screen) -> Screen:
    following = SORTS[(SORTS.index(screen.sort) + 1) % len(SORTS)]
    return replace(screen, sort=following, selected=0)


def _pause(screen: Screen) -> Screen:
    return replace(screen, is_paused=not screen.is_paused)


_COMMANDS: dict[str, Callable[[Screen], Screen]] = {
    "q": lambda screen: replace(screen, is_over=True),
    "p": _pause,
    " ": _pause,
    "s": _sort,
    "r": lambda screen: replace(screen, is_reversed=not screen.is_reversed, selected=0),
    "/": lambda screen: replace(screen, is_typing=True),
}


def _type(screen: Screen, key: str) -> Screen:
    if key == ENTER:
        return replace(screen, is_typing=False)
    if key == ESCAPE:
        return replace(screen, is_typing=False, text="", selected=0)
    if key == BACKSPACE:
        return replace(screen, text=screen.text[:-1], selected=0)
    if len(key) == 1 and key.isprintable():
        return replace(screen, text=(screen.text + key)[:_LONGEST_FILTER], selected=0)
    return screen


def _move(screen: Screen, key: str, shown: Sequence[str]) -> Screen:
    if key == ESCAPE:
        return replace(screen, opened=None) if screen.opened else replace(screen, text="")
    if screen.opened is not None or not shown:
        return screen
    place = min(screen.selected, len(shown) - 1)
    match key:
        case "j" | "down":
            return replace(screen, selected=min(place + 1, len(shown) - 1))
        case "k" | "up":
            return replace(screen, selected=max(place - 1, 0))
        case "enter":
            return replace(screen, opened=shown[place])
    return screen


def name_keys(text: str) -> list[str]:
    """The keys in what a terminal has sent; sequences of keys without a meaning are left out."""
    keys, place = [], 0
    while place < len(text):
        if text[place] == "\x1b" and text[place + 1 : place + 2] in ("[", "O"):
            end = place + 2
            while end < len(text) and not text[end].isalpha() and text[end] != "~":
                end += 1
            keys += [_SEQUENCES[it] for it in [text[place : end + 1]] if it in _SEQUENCES]
            place = end + 1
        else:
            keys.append(_NAMES.get(text[place], text[place]))
            place += 1
    return keys


@asynccontextmanager
async def read_keys() -> AsyncIterator["asyncio.Queue[str]"]:
    """The keys that a person presses, in order. Without a terminal there are none.

    Leaving the context restores the settings of the terminal.
    """
    keys: asyncio.Queue[str] = asyncio.Queue()
    before = _read_settings()
    if before is None:
        yield keys
        return
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()

    def take() -> None:
        sent = os.read(terminal, 1024)
        if not sent:  # the terminal is gone
            loop.remove_reader(terminal)
        for key in name_keys(sent.decode("utf-8", "replace")):
            keys.put_nowait(key)

    tty.setcbreak(terminal, termios.TCSANOW)  # keys that were pressed before count
    loop.add_reader(terminal, take)
    try:
        yield keys
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read_settings() -> list[Any] | None:
    """The settings of the terminal at standard input; None if there is none."""
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (OSError, ValueError, termios.error):
        return None
