"""A server that speaks MongoDB's protocol, kept in one SQLite file; run by a Python of its own.

It imports nothing of the project: the environment that runs it holds only what the file of
requirements for this server names. ``python mongo_stand_in.py FILE PORT`` serves until SIGTERM.
"""

import asyncio
import signal
import sys
from importlib import import_module


async def serve(file: str, port: int) -> None:
    # Imported by name, for where the tests are checked these libraries are not installed.
    engines = import_module("mongoeco.engines.sqlite")
    wire = import_module("mongoeco.wire")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine = engines.SQLiteEngine(file, executor_workers=1)
    async with wire.AsyncMongoEcoProxyServer(engine=engine, host="127.0.0.1", port=port):
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
