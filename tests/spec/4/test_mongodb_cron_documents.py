"""What a poller leaves of a collection is what mongodb-cron leaves of it, field by field.

``mongodb_cron.json`` beside this was recorded from the real one, which
``tests/process/poller/test_mongodb_cron.py`` runs again. In MongoDB's extended JSON it has for each
case the documents at first, those that the hook was given, and those that were left. Where the two
are meant to differ, ``left_by_rota`` has what Rota leaves.
"""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from tests.unit.poller.polling import DAY, NOW, Stage

from rota.poller import PolledJob, PollerOptions
from rota.poller.mongo import FieldPaths, MongoCollectionStore
from rota.testing import VirtualClock

RECORD = json.loads(Path(__file__).with_name("mongodb_cron.json").read_text())
CASES = {case["name"]: case for case in RECORD["cases"]}
JSON_OPTIONS = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def encode(documents: Sequence[Any]) -> list[str]:
    """As text, in which the order of fields and the types of values show."""
    return [json_util.dumps(document, json_options=JSON_OPTIONS) for document in documents]


def decode(documents: Sequence[Any]) -> list[Any]:
    return [json_util.loads(json.dumps(each), json_options=JSON_OPTIONS) for each in documents]


def read_options(case: dict[str, Any]) -> tuple[FieldPaths, PollerOptions]:
    """The options of mongodb-cron in Rota's words."""
    found = case.get("options", {})
    paths = {"sleepUntil": "sleep_until", "interval": "interval"} | {
        "repeatUntil": "repeat_until",
        "autoRemove": "auto_remove",
    }
    delays = {"reprocessDelay": "reprocess_delay", "lockDuration": "lock_duration"}
    fields: Any = {
        f"{ours}_field": found[f"{theirs}FieldPath"]
        for theirs, ours in paths.items()
        if f"{theirs}FieldPath" in found
    }
    options: Any = {
        ours: found[theirs] * MILLISECOND for theirs, ours in delays.items() if theirs in found
    }
    return fields, options


async def play(stage: Stage, case: dict[str, Any], options: PollerOptions) -> None:
    """Poll until there is nothing to do, or there were as many turns as there are to be."""
    work_for = case.get("work_ms", 0) * MILLISECOND

    async def work(_: PolledJob) -> None:
        await stage.clock.sleep(work_for)
        if len(stage.jobs) == case.get("turn_count"):
            await stage.pollers[0].stop()
        if case.get("fails"):
            raise ValueError("as told")

    stage.work = work
    options["idle_delay"] = DAY
    await stage.play(work_for * case.get("turn_count", 0), **options)
    await stage.close()


@pytest.mark.parametrize("name", CASES)
async def test_documents_are_given_and_left_as_by_mongodb_cron(mongo_url: str, name: str) -> None:
    case = CASES[name]
    fields, options = read_options(case)
    async with AsyncMongoClient[Any](mongo_url) as client:
        collection: AsyncCollection[Any] = client.get_default_database()["jobs"].with_options(
            codec_options=CodecOptions(tz_aware=True, tzinfo=UTC)
        )
        await collection.insert_many(decode(case["documents"]))
        stage = Stage(
            MongoCollectionStore(collection, case.get("condition"), **fields), VirtualClock(NOW)
        )
        await asyncio.wait_for(play(stage, case, options), timeout=60)
        left = [document async for document in collection.find({}).sort("_id")]
    assert encode(left) == encode(decode(case.get("left_by_rota", case["left"])))
    given = [job.payload for job in stage.jobs]
    assert sorted(encode(given)) == sorted(encode(decode(case["given"])))


async def test_values_only_mongodb_cron_can_read_are_reported(mongo_url: str) -> None:
    case = CASES["intervals_that_only_one_can_read"]
    async with AsyncMongoClient[Any](mongo_url) as client:
        collection = client.get_default_database()["jobs"]
        await collection.insert_many(decode(case["documents"]))
        stage = Stage(MongoCollectionStore(collection), VirtualClock(NOW))
        await play(stage, case, {})
    unreadable = [each["interval"] for each in case["left_by_rota"] if each["sleepUntil"] is None]
    assert [getattr(error, "expression", "") for error in stage.errors] == unreadable
