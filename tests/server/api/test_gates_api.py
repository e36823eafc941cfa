"""/gates: quiet hours and maintenance, of a tenant and of the installation."""

from typing import Any

import pytest
from tests.server.api.neighbours import Neighbours
from tests.server.service import field_of

from rota.auth.caller import Scope

GATES = "/api/v1/gates"
QUIET = f"{GATES}/quiet-hours"
OWN = f"{GATES}/maintenance"
ALL = f"{GATES}/maintenance/installation"
KIND = "/api/v1/kinds/notifies"
NIGHT = {"start": "22:00", "end": "07:00", "zone": "Europe/London"}


async def gates_of(client: Any) -> dict[str, Any]:
    shown: dict[str, Any] = (await client.get(GATES)).json()
    return shown


async def test_quiet_hours_are_set_shown_and_cleared(both: Neighbours) -> None:
    assert (await gates_of(both.ours))["quiet_hours"] is None
    answer = await both.ours.put(QUIET, json={**NIGHT, "rest_days": ["sun"], "why": "asked for"})
    assert answer.status_code == 200, answer.text
    hours = (await gates_of(both.ours))["quiet_hours"]
    assert (hours["start"], hours["end"], hours["zone"]) == ("22:00", "07:00", "Europe/London")
    assert (hours["rest_days"], hours["is_quiet"], hours["reopens_at"]) == (["sun"], False, None)
    await both.ours.put(QUIET, json={**NIGHT, "start": "12:00"})
    hours = (await gates_of(both.ours))["quiet_hours"]
    assert (hours["is_quiet"], hours["reopens_at"]) == (True, "2026-05-02T06:00:00Z")
    assert (await both.ours.delete(QUIET)).status_code == 204
    assert (await gates_of(both.ours))["quiet_hours"] is None
    log = (await both.ours.get("/api/v1/audit")).json()["items"]
    assert {it["who"] for it in log} == {"ours tester"}
    assert sorted(it["why"] for it in log) == ["", "", "asked for"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"start": "25:00"}, "start"),
        ({"end": "late"}, "end"),
        ({"zone": "Mars"}, "zone"),
        ({"weekdays": ["someday"]}, "weekdays[0]"),
        ({"holidays": ["christmas"]}, "holidays[0]"),
        ({"rest_days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}, "windows"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_bad_quiet_hours_name_their_field(
    neighbours: Neighbours, wrong: dict[str, Any], field: str
) -> None:
    assert field_of(await neighbours.ours.put(QUIET, json={**NIGHT, **wrong})) == field


async def test_maintenance_is_set_planned_beside_and_cleared(both: Neighbours) -> None:
    answer = await both.ours.put(OWN, json={"until": "2026-05-01T13:00:00Z", "reason": "upgrade"})
    assert answer.status_code == 200, answer.text
    (window,) = answer.json()
    assert (window["scope"], window["is_closed"], window["who"]) == ("tenant", True, "ours tester")
    later = {
        "from_at": "2026-05-02T00:00:00Z",
        "until": "2026-05-02T01:00:00Z",
        "is_added": True,
    }
    await both.ours.put(OWN, json=later)
    shown = (await gates_of(both.ours))["maintenance"]
    assert [it["is_closed"] for it in shown] == [True, False]
    assert (await both.ours.delete(OWN)).status_code == 204
    assert (await gates_of(both.ours))["maintenance"] == []


async def test_that_of_the_installation_is_seen_by_all_and_that_of_a_tenant_by_none_else(
    both: Neighbours,
) -> None:
    await both.ours.put(OWN, json={})
    await both.ours.put(QUIET, json=NIGHT)
    await both.ours.put(ALL, json={"reason": "all"})
    await both.ours.put(ALL, json={"queue": "mail"})
    theirs = await gates_of(both.theirs)
    assert theirs["quiet_hours"] is None
    assert [(it["scope"], it["queue"]) for it in theirs["maintenance"]] == [
        ("everything", None),
        ("queue", "mail"),
    ]
    assert (await both.ours.delete(ALL)).status_code == 204
    assert (await both.ours.delete(f"{ALL}?queue=mail")).status_code == 204
    assert (await gates_of(both.theirs))["maintenance"] == []
    assert len((await gates_of(both.ours))["maintenance"]) == 1


async def test_another_tenants_clearing_clears_only_their_own(neighbours: Neighbours) -> None:
    await neighbours.ours.put(OWN, json={})
    await neighbours.ours.put(QUIET, json=NIGHT)
    await neighbours.theirs.delete(OWN)
    await neighbours.theirs.delete(QUIET)
    shown = await gates_of(neighbours.ours)
    assert shown["quiet_hours"] is not None
    assert len(shown["maintenance"]) == 1


async def test_bad_windows_name_their_field_and_scopes_are_asked_for(
    neighbours: Neighbours,
) -> None:
    for body, field in (
        ({"until": "soon"}, "until"),
        ({"until": "2020-01-01T00:00:00Z"}, "until"),
        ({"from_at": "2026-05-02T00:00:00Z", "until": "2026-05-01T00:00:00Z"}, "until"),
        ({"reason": "x" * 501}, "reason"),
    ):
        assert field_of(await neighbours.ours.put(OWN, json=body)) == field
    assert field_of(await neighbours.ours.put(ALL, json={"queue": "no queue"})) == "queue"
    async with neighbours.with_only(Scope.READ, Scope.OPERATE) as operator:
        assert (await operator.put(OWN, json={})).status_code == 200
        assert (await operator.put(ALL, json={})).status_code == 403
        assert (await operator.delete(ALL)).status_code == 403
    async with neighbours.with_only(Scope.READ, Scope.WRITE) as writer:
        assert (await writer.get(GATES)).status_code == 200
        for method, url in (("PUT", QUIET), ("DELETE", QUIET), ("PUT", OWN), ("DELETE", OWN)):
            assert (await writer.request(method, url, json={})).status_code == 403


async def test_whether_a_kind_notifies_people_is_set_for_all_tenants(both: Neighbours) -> None:
    body = {"kind": "receipt.send", "notifies": True, "why": "it writes to customers"}
    answer = await both.ours.put(KIND, json=body)
    assert (answer.status_code, answer.json()["set_notifies"]) == (200, True)
    assert (await gates_of(both.theirs))["kinds"] == [{"kind": "receipt.send", "notifies": True}]
    (known,) = (await both.theirs.get("/api/v1/kinds")).json()["items"]
    assert (known["kind"], known["notifies"], known["set_notifies"]) == ("receipt.send", True, True)
    assert (await both.ours.delete(f"{KIND}?kind=receipt.send")).status_code == 204
    assert (await gates_of(both.ours))["kinds"] == []
    assert (await both.theirs.get("/api/v1/kinds")).json()["items"] == []


async def test_only_an_admin_sets_a_kind_and_a_bad_one_names_its_field(
    neighbours: Neighbours,
) -> None:
    body = {"kind": "receipt.send", "notifies": True}
    for wrong, field in (({"kind": ""}, "kind"), ({"notifies": "often"}, "notifies")):
        assert field_of(await neighbours.ours.put(KIND, json={**body, **wrong})) == field
    async with neighbours.with_only(Scope.READ, Scope.OPERATE) as operator:
        assert (await operator.put(KIND, json=body)).status_code == 403
        assert (await operator.delete(f"{KIND}?kind=receipt.send")).status_code == 403
