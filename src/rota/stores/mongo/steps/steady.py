"""Several documents as of one moment, from a server that promises it only for one."""

from collections.abc import Iterable, Sequence

from rota.stores.mongo.gateway import Gateway, Query, Raw
from rota.stores.mongo.steps.names import VERSION
from rota.stores.mongo.steps.recovery import clear_for_reading


async def read_steadily(gateway: Gateway, asked: Sequence[Query]) -> list[Raw]:
    """What queries find, all of it as it was at one moment.

    They are asked again, for the versions alone, until nothing has been written in between: the
    server promises no single moment for more than one document.
    """
    while True:
        found = await _find_all(gateway, asked)
        if not await clear_for_reading(gateway, found):
            continue
        if len(found) <= 1:
            return found
        again = await _find_all(gateway, [each._replace(fields=[VERSION]) for each in asked])
        if _versions(again) == _versions(found):
            return found


async def _find_all(gateway: Gateway, asked: Sequence[Query]) -> list[Raw]:
    return [raw for query in asked for raw in await gateway.find(query)]


def _versions(found: Iterable[Raw]) -> list[tuple[str, int | None]]:
    return sorted((raw["_id"], raw.get(VERSION)) for raw in found)
