"""The real mongodb-cron beside a poller: the same documents, and one collection for both."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from tests.process.fleet import PATIENCE, ROOT, wait_for
from tests.process.poller.mongodb_cron import polling_peer, replay_cases
from tests.process.poller.pack import Pack, gathered_pack
from tests.process.programs.poller_member import COLLECTION, SLEEP_UNTIL

from rota.clock import SystemClock

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

RECORD = json.loads((ROOT / "tests/spec/4/mongodb_cron.json").read_text())
LONG = timedelta(minutes=10)
SECOND = timedelta(seconds=1)
RECURRING_COUNT, ONE_TIME_COUNT = 4, 16


def test_the_recording_matches_mongodb_cron(mongo_url: str) -> None:
    told = ("name", "documents", "options", "condition", "work_ms", "turn_count", "fails")
    cases = [{key: case[key] for key in told if key in case} for case in RECORD["cases"]]
    outcomes = replay_cases(mongo_url, RECORD["now"], cases)
    for case in RECORD["cases"]:
        outcome = outcomes[case["name"]]
        assert outcome["left"] == case["left"], case["name"]
        # It takes documents in no particular order.
        assert in_some_order(outcome["given"]) == in_some_order(case["given"]), case["name"]


def in_some_order(documents: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(document) for document in documents)


def make_documents(now: datetime) -> list[dict[str, Any]]:
    """Some recur every second for a while, others are done once, and half of those removed."""
    recurring = [
        {
            "_id": f"recurring-{number}",
            "cron": {"sleepUntil": now},
            "interval": "* * * * * *",
            "repeatUntil": now + 3 * SECOND,
        }
        for number in range(RECURRING_COUNT)
    ]
    one_time = [
        {"_id": f"once-{number}", "cron": {"sleepUntil": now}, "autoRemove": number % 2 == 0}
        for number in range(ONE_TIME_COUNT)
    ]
    return recurring + one_time


def test_a_poller_and_mongodb_cron_share_a_collection(mongo_url: str, tmp_path: Path) -> None:
    options = {
        "sleepUntilFieldPath": SLEEP_UNTIL,
        "lockDuration": LONG // timedelta(milliseconds=1),
        "idleDelay": 50,
        "nextDelay": 20,
    }
    with (
        MongoClient[dict[str, Any]](mongo_url, tz_aware=True) as client,
        polling_peer(tmp_path, mongo_url, COLLECTION, options) as peer,
        gathered_pack(tmp_path, mongo_url, size=1, lock_for=LONG) as pack,
    ):
        collection = client.get_default_database()[COLLECTION]
        wait_for(lambda: len(pack.entries) == 2, "the start of both")
        documents = make_documents(SystemClock().now().replace(microsecond=0))
        collection.insert_many(documents)
        is_awake = {SLEEP_UNTIL: {"$ne": None}}
        wait_for(lambda: not collection.count_documents(is_awake), "the end of every document")
        pack.stop()
        peer.terminate()
        assert peer.wait(PATIENCE) == 0, pack.complaints
        left = {each["_id"]: each for each in collection.find({})}
    check_shares(pack, peer.pid)
    check_left(documents, left)


def check_shares(pack: Pack, peer_id: int) -> None:
    """Both took part, and each document was given to one of them once for each due time."""
    entries = [entry for entry in pack.entries if entry.job]
    assert pack.errors == []
    assert {entry.process_id for entry in entries} == {peer_id, pack.members[0].pid}
    given = Counter((entry.job, entry.due_at) for entry in entries)
    assert set(given.values()) == {1}
    turns = Counter(entry.job for entry in entries)
    assert all(turns[f"once-{number}"] == 1 for number in range(ONE_TIME_COUNT))
    assert all(2 <= turns[f"recurring-{number}"] <= 5 for number in range(RECURRING_COUNT))


def check_left(documents: Sequence[dict[str, Any]], left: dict[str, dict[str, Any]]) -> None:
    """Those to be removed are gone; of all others only the time has changed."""
    kept = [each for each in documents if not each.get("autoRemove")]
    assert left == {each["_id"]: {**each, "cron": {"sleepUntil": None}} for each in kept}
