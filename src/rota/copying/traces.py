"""What a copy leaves in a store for itself, which is nobody's content."""

from collections.abc import Mapping, Sequence
from secrets import token_bytes

from rota.copying.mark import UNFINISHED
from rota.errors import InvalidInputError
from rota.stores.protocol import DocumentStore, DocumentWrite, KeptDocument, Record

PROBE = "copy-probe"
"""The collection of a document that comes and goes; left behind, it is in nobody's way."""

_KEY = "target"
_OWN = (UNFINISHED, PROBE)


def without_traces(records: Sequence[Record]) -> list[Record]:
    """The records but for those that are a copy's own."""
    return [
        each for each in records if not (isinstance(each, KeptDocument) and each.collection in _OWN)
    ]


def content_counts(document_counts: Mapping[str, int]) -> dict[str, int]:
    """How many documents of each collection there are, but for those that are a copy's own."""
    return {name: count for name, count in document_counts.items() if count and name not in _OWN}


async def refuse_same_store(source: DocumentStore, target: DocumentStore) -> None:
    """InvalidInputError when what is written to the one is read from the other.

    Addresses do not tell: a file has several names, and so has a server.
    """
    said = token_bytes(16)
    left = (await target.read(PROBE, [_KEY])).get(_KEY)
    (version,) = await target.write_each(
        [DocumentWrite(PROBE, _KEY, None if left is None else left.version, said)]
    )
    try:
        heard = (await source.read(PROBE, [_KEY])).get(_KEY)
    finally:
        await target.write_each([DocumentWrite(PROBE, _KEY, version, None)])
    if heard is not None and heard.body == said:
        raise InvalidInputError(
            "The source and the target are the same store by two addresses; nothing was changed"
        )
