"""What is read of a document, whatever other programs have written there; no server is asked."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from tests.unit.poller.polling import HOUR, MINUTE, NOW

from rota.clock.protocol import END_OF_TIME
from rota.poller import PolledJob
from rota.poller.mongo import MongoCollectionStore

MILLISECONDS = round(NOW.timestamp() * 1000)
FARTHEST = 8_640_000_000_000_000
"""In milliseconds since 1970, the last instant that mongodb-cron's language knows."""


@pytest.fixture
async def collection() -> AsyncIterator["AsyncCollection[Any]"]:
    async with AsyncMongoClient[Any]("mongodb://127.0.0.1:1/", connect=False) as client:
        yield client["any"]["jobs"]


def read(collection: "AsyncCollection[Any]", fields: dict[str, Any], **paths: Any) -> PolledJob:
    """The job of a document that went through the driver as it comes from a server."""
    store = MongoCollectionStore(collection, **paths)
    sent = bson.encode({"_id": 1, "sleepUntil": NOW, **fields})
    return store._read(bson.decode(sent, store._collection.codec_options), NOW + MINUTE)


@pytest.mark.parametrize(
    "value",
    [
        NOW,
        MILLISECONDS,
        float(MILLISECONDS),
        "2026-05-01T12:00:00.000Z",
        "2026-05-01T14:00:00+02:00",
        "2026-05-01 12:00:00",
    ],
)
@pytest.mark.parametrize("field", ["sleepUntil", "repeatUntil"])
async def test_an_instant_may_be_a_date_or_a_number_or_a_text(
    collection: "AsyncCollection[Any]", field: str, value: Any
) -> None:
    job = read(collection, {field: value})
    assert {"sleepUntil": job.sleep_until, "repeatUntil": job.repeat_until}[field] == NOW


@pytest.mark.parametrize("value", ["soon", True, {}, [], float("inf"), float("nan"), 2**62])
async def test_a_value_that_is_not_an_instant_is_shown_unchanged(
    collection: "AsyncCollection[Any]", value: Any
) -> None:
    given = read(collection, {"sleepUntil": value}).sleep_until
    assert repr(given) == repr(value)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(FARTHEST, END_OF_TIME), (-FARTHEST, datetime.min.replace(tzinfo=UTC))],
)
@pytest.mark.parametrize(
    "conversion", [DatetimeConversion.DATETIME, DatetimeConversion.DATETIME_MS]
)
async def test_a_date_beyond_the_calendar_is_the_end_of_it(
    collection: "AsyncCollection[Any]",
    milliseconds: int,
    expected: datetime,
    conversion: DatetimeConversion,
) -> None:
    converting: AsyncCollection[Any] = collection.with_options(
        codec_options=CodecOptions(datetime_conversion=conversion)
    )
    job = read(converting, {"repeatUntil": DatetimeMS(milliseconds)})
    assert (job.repeat_until, job.sleep_until) == (expected, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9999-12-31T23:59:59-05:00", END_OF_TIME),
        ("0001-01-01T00:00:00+14:00", datetime.min.replace(tzinfo=UTC)),
    ],
)
async def test_a_text_that_utc_has_beyond_the_calendar_is_the_end_of_it(
    collection: "AsyncCollection[Any]", text: str, expected: datetime
) -> None:
    assert read(collection, {"repeatUntil": text}).repeat_until == expected


@pytest.mark.parametrize("value", [None, False, 0, 0.0, ""])
async def test_an_empty_value_is_not_an_end_and_does_not_remove(
    collection: "AsyncCollection[Any]", value: Any
) -> None:
    job = read(collection, {"repeatUntil": value, "autoRemove": value})
    assert (job.repeat_until, job.auto_remove) == (None, False)


@pytest.mark.parametrize("value", [True, 1, "no", {}, [], b"", NOW, -1.5])
async def test_all_else_removes(collection: "AsyncCollection[Any]", value: Any) -> None:
    assert read(collection, {"autoRemove": value}).auto_remove


async def test_only_a_number_removes_a_document(collection: "AsyncCollection[Any]") -> None:
    assert not read(collection, {"autoRemove": float("nan")}).auto_remove


async def test_a_path_leads_into_lists_by_number(collection: "AsyncCollection[Any]") -> None:
    paths = {
        "sleep_until_field": "plan.0.at",
        "interval_field": "plan.1",
        "repeat_until_field": "plan.7",
        "auto_remove_field": "plan.x",
    }
    job = read(collection, {"plan": [{"at": NOW + HOUR}, "@daily"]}, **paths)
    found = (job.sleep_until, job.interval, job.repeat_until, job.auto_remove)
    assert found == (NOW + HOUR, "@daily", None, False)
