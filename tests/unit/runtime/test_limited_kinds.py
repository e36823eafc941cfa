"""A worker that is limited to some kinds."""

import pytest

from rota.errors import InvalidInputError
from rota.runtime.user_modules import register_handlers
from rota.stores.memory import MemoryStore
from rota.worker import Worker


async def run(_: object) -> None: ...


def register_two(worker: Worker) -> None:
    for kind in ("mail.send", "report"):
        worker.handler(kind)(run)


def test_only_the_named_kinds_have_a_handler() -> None:
    worker = Worker(MemoryStore())
    register_handlers(worker, [register_two], {"log.message": run}, ["report", "log.message"])
    assert worker.kinds == {"report", "log.message"}


def test_without_names_all_kinds_have_one() -> None:
    worker = Worker(MemoryStore())
    register_handlers(worker, [register_two], {"log.message": run})
    assert worker.kinds == {"mail.send", "report", "log.message"}


def test_a_kind_without_a_handler_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError) as caught:
        register_handlers(Worker(MemoryStore()), [register_two], {}, ["report", "mail.sned"])
    assert caught.value.details["field"] == "--kinds"
    assert '"mail.sned"' in caught.value.message
    assert "mail.send, report" in caught.value.message
