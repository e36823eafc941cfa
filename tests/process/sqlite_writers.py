"""Programs that the process tests start: each writes to one SQLite store in its own way.

``python sqlite_writers.py PROGRAM PATH [COUNT]``; what has been acknowledged is printed, line by
line, so that the test knows it even if the program is killed.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import Iterator

from rota.errors import StoreUnavailableError
from rota.runtime.wiring import open_store
from rota.stores.protocol import DocumentStore, DocumentWrite


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def increment(path: str, count: int) -> None:
    """Raise the version of one document ``count`` times while other writers do the same."""
    async with await open_store(f"sqlite:///{path}") as store:
        while count:
            current = (await store.read("tasks", ["counter"]))["counter"].version
            (version,) = await store.write_each([DocumentWrite("tasks", "counter", current, b"")])
            if version is not None:
                say(version)
                count -= 1


async def write_endlessly(path: str, _: int) -> None:
    """One transaction that never ends by itself."""

    def stream() -> Iterator[DocumentWrite]:
        for number in itertools.count():
            yield DocumentWrite("tasks", f"task-{number:09}", None, b"body" * 40)
            if number % 10_000 == 0:
                say(number)

    async with await open_store(f"sqlite:///{path}") as store:
        await store.write_all(stream())


async def open_and_write(path: str, _: int) -> None:
    """Open a store that others are making at the same moment."""
    say("ready")
    sys.stdin.readline()
    async with await open_store(f"sqlite:///{path}") as store:
        key = str(os.getpid())
        say((await store.write_each([DocumentWrite("tasks", key, None, b"")]))[0])


def use_in_forked_child(path: str) -> None:
    """Try in a forked child what only the parent may do."""
    with asyncio.Runner() as runner:
        store: DocumentStore = runner.run(open_store(f"sqlite:///{path}"))
        child = os.fork()
        if not child:
            os._exit(_use(store))
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        say(runner.run(store.write_each([DocumentWrite("tasks", "a", None, b"")]))[0])
        runner.run(store.close())


def _use(store: DocumentStore) -> int:
    with asyncio.Runner() as runner:
        try:
            runner.run(store.read("tasks", ["a"]))
        except StoreUnavailableError as error:
            say(error)
            return 7
    return 0


PROGRAMS = {
    "increment": increment,
    "write_endlessly": write_endlessly,
    "open_and_write": open_and_write,
}

if __name__ == "__main__":
    name, path, *rest = sys.argv[1:]
    if name == "use_in_forked_child":
        use_in_forked_child(path)
    else:
        asyncio.run(PROGRAMS[name](path, int(rest[0]) if rest else 0))
