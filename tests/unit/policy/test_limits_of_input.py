"""What is refused at its edge, and what of the audit log stays."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from rota.clock import VirtualClock
from rota.errors import InvalidInputError
from rota.jobs.retention import Keep, Retention, RetentionRule
from rota.policy.audit import (
    LONGEST_WHY,
    AuditedAction,
    TenantAudit,
    collection_of,
    list_audited,
    prune_audit,
    read_audit,
    record_action,
)
from rota.policy.gate_settings import Damage, KindNotifies, Scope
from rota.policy.gates import LONGEST_REASON, Maintenance
from rota.policy.limits import Limit, Pause, Rate
from rota.policy.once import document_key
from rota.policy.retention import (
    MOST_MARKED,
    Marks,
    Progress,
    StoredRule,
    decode_rule,
    encode_rule,
    name_rules,
    rule_key,
)
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, EndedPlace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def an_audit(tenant: str = "acme") -> TenantAudit:
    return TenantAudit(MemoryStore(), tenant, VirtualClock(NOW), lambda bits: (1 << bits) - 1)


def refusal(make: Any) -> dict[str, Any]:
    with pytest.raises(InvalidInputError) as found:
        make()
    return found.value.details


async def test_a_why_of_an_action_may_be_as_long_as_it_says() -> None:
    around = an_audit()
    entry = await record_action(around, AuditedAction(action="retry", why="w" * 2_000))
    assert entry.why == "w" * LONGEST_WHY
    assert (entry.who, entry.at, entry.tenant) == ("unknown", NOW, "acme")
    for why in ("w" * 2_001, 5):
        with pytest.raises(InvalidInputError, match="why must be a text of at most 2000"):
            await record_action(around, AuditedAction(action="retry", why=why))  # type: ignore[arg-type] # what is wrong is the point


async def test_details_that_are_not_json_are_refused() -> None:
    act = AuditedAction(action="retry", details={"x": object()})
    with pytest.raises(InvalidInputError, match="details must be JSON"):
        await record_action(an_audit(), act)


async def test_only_entries_that_are_older_and_can_be_read_are_pruned() -> None:
    around = an_audit()
    first = await record_action(around, AuditedAction(action="retry", who="ada"))
    store = around.store
    await store.write_each([DocumentWrite(collection_of("acme"), "damaged", None, b"?")])
    assert await prune_audit(store, "acme", first.at) == 0
    assert await prune_audit(store, "other", first.at + DAY) == 0
    assert await list_audited(store) == ["acme"]
    assert await prune_audit(store, "acme", first.at + DAY) == 1
    await store.write_each([DocumentWrite(collection_of("acme"), "damaged", 1, None)])
    assert [each async for each in read_audit(store, "acme")] == []


def test_a_reason_may_be_as_long_as_it_says() -> None:
    assert len(Maintenance(reason="r" * LONGEST_REASON).reason) == LONGEST_REASON
    assert refusal(lambda: Maintenance(reason="r" * (LONGEST_REASON + 1)))["field"] == "reason"
    assert refusal(lambda: Maintenance(who="a\nb"))["field"] == "who"
    assert refusal(lambda: Maintenance(from_at=NOW, until=NOW))["field"] == "until"


def test_a_kind_notifies_or_does_not() -> None:
    assert KindNotifies("mail", notifies=True).notifies
    bad: Any = "yes"
    assert refusal(lambda: KindNotifies("mail", notifies=bad))["field"] == "notifies"
    assert refusal(lambda: KindNotifies("no kind", notifies=True))["field"] == "kind"


def test_a_scope_is_a_tenant_or_a_queue_or_everything() -> None:
    assert [str(each) for each in (Scope(), Scope("acme"), Scope(queue="mail"))] == [
        "everything",
        "tenant acme",
        "queue mail",
    ]
    assert refusal(lambda: Scope("acme", "mail"))["field"] == "queue"
    assert refusal(lambda: Scope("a b"))["field"] == "tenant"
    assert refusal(lambda: Scope(queue="a b"))["field"] == "queue"


def test_a_pause_and_ageing_are_of_a_queue() -> None:
    pause = Pause(at=NOW)
    paused = Limit(queue="mail", running=3, paused=pause)
    assert (paused.most_running, paused.is_limited) == (0, True)
    assert not Limit(queue="mail", paused=pause).is_limited
    assert Limit(queue="mail", running=3).most_running == 3
    assert refusal(lambda: Limit(tenant="acme", paused=pause))["field"] == "queue"
    assert refusal(lambda: Limit(tenant="acme", queue="mail", ageing=DAY))["field"] == "ageing"
    assert refusal(lambda: Limit(ageing=DAY))["field"] == "ageing"
    assert refusal(lambda: Limit(queue="mail", ageing=timedelta(0)))["field"] == "ageing"
    assert refusal(lambda: Limit(queue="mail"))["field"] == "running"
    assert refusal(lambda: Limit(running=-1))["field"] == "running"
    assert Limit(rate=Rate(count=1, per=DAY)).is_limited


def test_the_key_of_an_effect_is_readable_as_long_as_it_fits() -> None:
    assert document_key("acme", "k" * 250) == "acme/" + "k" * 250
    plain = "acme/" + "k" * 251
    assert document_key("acme", "k" * 251) == f"sha256:{sha256(plain.encode()).hexdigest()}"


def test_a_stored_rule_is_read_as_it_was_written() -> None:
    for tenant, kind in ((None, None), ("acme", None), (None, "mail"), ("acme", "mail")):
        rule = RetentionRule(tenant=tenant, kind=kind, keep=Keep(ended=DAY))
        stored = StoredRule(rule=rule, who="ada", set_at=NOW)
        assert decode_rule(rule_key(tenant, kind), encode_rule(stored)) == stored
        assert isinstance(decode_rule("noslash", encode_rule(stored)), Damage)
    assert isinstance(decode_rule("acme/", b"?"), Damage)


def test_marks_hold_for_a_while_and_for_the_rules_they_were_made_under() -> None:
    rules, others = Retention(Keep(ended=DAY)), Retention(Keep(ended=2 * DAY))
    assert name_rules(rules) == name_rules(Retention(Keep(ended=DAY))) != name_rules(others)
    assert len(name_rules(rules)) == 16
    place = EndedPlace(NOW, "id")
    marks = Marks(since=NOW).move(DAY, place)
    assert (marks.place_of(DAY), marks.place_of(2 * DAY)) == (place, None)
    progress = Progress(marks=Progress().with_marks(rules, marks))
    read = msgspec.json.decode(msgspec.json.encode(progress), type=Progress)
    assert read.marks_of(rules, NOW, DAY) == marks
    assert read.marks_of(rules, NOW + DAY - timedelta(seconds=1), DAY) == marks
    assert read.marks_of(rules, NOW + DAY, DAY) == Marks(since=NOW + DAY)
    before = NOW - timedelta(seconds=1)
    assert read.marks_of(rules, before, DAY) == Marks(since=before)
    assert read.marks_of(others, NOW, DAY) == Marks(since=NOW)


def test_the_marks_of_rules_that_began_first_are_forgotten() -> None:
    progress = Progress()
    rules = [Retention(Keep(ended=number * DAY)) for number in range(MOST_MARKED + 2)]
    for number, each in enumerate(rules):
        marks = progress.with_marks(each, Marks(since=NOW + number * DAY))
        progress = Progress(marks=marks)
    assert set(progress.marks) == {name_rules(each) for each in rules[2:]}
