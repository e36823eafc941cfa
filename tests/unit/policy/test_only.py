"""A gate that stands before some jobs only."""

from datetime import UTC, datetime, timedelta

from rota.policy.gates import Closed, Maintenance, Only, Open
from rota.testing import a_job

JOB = a_job(tenant="acme", queue="mail", name="send")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_gate_may_stand_before_some_jobs_only() -> None:
    window = Maintenance(until=NOON + HOUR)
    held = Closed(NOON + HOUR, "maintenance")
    named = [
        Only(gate=window, tenants={"acme"}),
        Only(gate=window, queues={"mail"}),
        Only(gate=window, kinds={"send"}),
        Only(gate=window),
    ]
    assert [gate.judge(JOB, NOON, notifies=False) for gate in named] == [held] * 4
    others = [
        Only(gate=window, tenants={"other"}),
        Only(gate=window, tenants={"acme"}, queues={"other"}),
        Only(gate=window, queues={"mail"}, kinds={"other"}),
    ]
    assert [gate.judge(JOB, NOON, notifies=False) for gate in others] == [Open()] * 3
