"""A stage reads one life per line and plays each in a process forked for it.

The answer to a line is how that process ended: 0, or the negative number of a signal.
"""

import asyncio
import gc
import logging
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from rota.runtime.wiring import check_address

Life = TypeVar("Life")
Play = Callable[[Life], Coroutine[Any, Any, None]]

_ONE_OF_EACH = ("sqlite:///a.db", "postgresql:///a", "redis://a", "mongodb://a/a", "mysql://a@a/a")


def play_all(life_type: type[Life], play: Play[Life]) -> None:
    """Answer every line of standard input."""
    logging.basicConfig(level=logging.CRITICAL)
    load_backends()
    for line in sys.stdin:
        exit_code = _play_in_a_fork(msgspec.json.decode(line, type=life_type), play)
        sys.stdout.write(f"{exit_code}\n")
        sys.stdout.flush()


def load_backends() -> None:
    """Have every process that is forked hereafter born with all backends loaded.

    Else each would load its own anew, which takes longer than many a life.
    """
    for address in _ONE_OF_EACH:
        check_address(address)
    gc.freeze()  # what all share is not to be copied for each


def _play_in_a_fork(life: Life, play: Play[Life]) -> int:
    child = os.fork()
    if not child:
        os._exit(_play_alone(life, play))  # the rest of this stack belongs to the parent
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _play_alone(life: Life, play: Play[Life]) -> int:
    try:
        asyncio.run(play(life))
    except Exception:  # noqa: BLE001 - whatever it was, it must not reach the parent's loop
        traceback.print_exc()
        return 1
    return 0
