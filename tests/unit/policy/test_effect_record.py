"""The record of an effect, and what it means for the next caller."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.errors import InvalidInputError, StoreError
from rota.policy.once import (
    RETRY_MARK,
    EffectState,
    OnCrash,
    Verdict,
    begin_effect,
    check_key,
    decode_effect,
    document_key,
    effect_key,
    encode_effect,
    judge_effect,
)
from rota.stores.protocol import Document
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RUNNING = begin_effect("guild-7", "send:1", "me", NOW, MINUTE)
DONE = replace(RUNNING, state=EffectState.DONE)
UNKNOWN = replace(RUNNING, state=EffectState.UNKNOWN)
LAST_INSTANT = NOW + MINUTE - timedelta.resolution


@pytest.mark.parametrize("on_crash", ["at_least_once", "at_most_once"])
def test_a_new_effect_begins_and_a_done_one_is_not_repeated(on_crash: OnCrash) -> None:
    assert judge_effect(None, NOW, on_crash) is Verdict.BEGIN
    assert judge_effect(DONE, NOW + MINUTE, on_crash) is Verdict.TAKE_RESULT
    assert judge_effect(RUNNING, LAST_INSTANT, on_crash) is Verdict.WAIT


@pytest.mark.parametrize("effect", [RUNNING, UNKNOWN])
def test_an_interrupted_effect_is_repeated_or_given_up_as_the_caller_says(effect: object) -> None:
    assert effect in {RUNNING, UNKNOWN}
    for each in (RUNNING, UNKNOWN):
        assert judge_effect(each, NOW + MINUTE, "at_least_once") is Verdict.BEGIN
        assert judge_effect(each, NOW + MINUTE, "at_most_once") is Verdict.GIVE_UP


def test_an_effect_survives_being_written_and_read() -> None:
    done = replace(DONE, result={"id": [1, None]}, ended_at=NOW)
    assert decode_effect(Document("k", 1, encode_effect(done))) == done


def test_an_unreadable_record_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="Effect k cannot be read"):
        decode_effect(Document("k", 1, b"{}"))


def test_a_job_stands_for_one_effect_also_when_it_replaces_a_dead_one() -> None:
    job = a_job(id="1", kind="send", idempotency_key="key", occurrence="monday")
    assert effect_key(job) == "send:key:monday"
    assert effect_key(replace(job, id="2", occurrence=f"monday{RETRY_MARK}1")) == "send:key:monday"
    single = a_job(id="1", kind="send")
    again = replace(single, id="2", idempotency_key="1", occurrence=f"{RETRY_MARK}1")
    assert effect_key(again) == effect_key(single) == "send:1:"


def test_no_two_effects_are_kept_in_one_place() -> None:
    pairs = [("a", "b:c"), ("a:b", "c"), ("a", "b/c"), ("a", "x" * 1000), ("b", "x" * 1000)]
    places = {document_key(tenant, key) for tenant, key in pairs}
    assert len(places) == len(pairs)
    assert all(len(place) <= 255 for place in places)


@pytest.mark.parametrize("key", ["", "x" * 1001, "a\nb", "a\0b", 5, None])
def test_a_key_that_cannot_be_is_refused(key: object) -> None:
    with pytest.raises(InvalidInputError, match="key must be printable text"):
        check_key(key)
