"""MongoDB stores for tests, which give a server on a busy machine more time to answer."""

from dataclasses import replace
from datetime import timedelta

from rota.stores.mongo.address import read_address
from rota.stores.mongo.store import MongoStore

LONG = timedelta(minutes=2)


async def open_patiently(url: str) -> MongoStore:
    """The store at an address."""
    return await MongoStore.open(replace(read_address(url), connect_for=LONG, answer_for=LONG))
