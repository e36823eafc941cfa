"""Gates that cannot be read let nothing pass that they would have held back."""

from datetime import timedelta

from tests.unit.worker.workshop import MINUTE, NOW, Workshop, succeed

from rota.errors import InvalidInputError
from rota.jobs import JobStatus
from rota.policy.gates import OPEN, Verdict
from rota.rail import Rail
from rota.stores.memory import MemoryStore
from rota.testing.faults import Failure, Fault, FaultyStore, StoreCall
from rota.worker import Worker, WorkerSettings


async def test_a_store_that_cannot_be_read_is_waited_for_before_a_job_passes_its_gates() -> None:
    store = MemoryStore()
    shop = Workshop(store)
    reads: list[StoreCall] = []

    def strike(call: StoreCall) -> Fault | None:
        if call.verb == "read" and shop.clock.now() >= NOW + MINUTE:
            reads.append(call)
        return Fault(Failure.BEFORE) if call in reads[:1] else None

    faulty = FaultyStore(store, shop.clock, strike)
    settings = WorkerSettings(poll_for=timedelta(hours=1))
    shop.start(Worker(faulty, {"work": succeed}, clock=shop.clock, settings=settings))
    await shop.pass_time(MINUTE)  # the gates have been read long ago, and were open
    rail = Rail(store, tenant="default", clock=shop.clock)
    await rail.set_maintenance(True, until=NOW + 10 * MINUTE)
    job = await shop.add()
    await shop.pass_time(5 * MINUTE)
    kept = await shop.look(job)
    assert len(reads) > 1
    assert (kept.status, kept.due_at) == (JobStatus.READY, NOW + 10 * MINUTE)
    await shop.pass_time(5 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    await shop.close()


async def test_a_gate_that_fails_for_another_reason_is_asked_as_it_is() -> None:
    class Broken:
        async def refresh(self, _: object) -> None:
            raise InvalidInputError("no such calendar", {"field": "calendar"})

        def judge(self, *_: object, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
            return OPEN

    shop = Workshop()
    shop.make_worker({"work": succeed}, WorkerSettings(gate=Broken()))
    job = await shop.add()
    await shop.clock.run(shop.worker.run_once())
    assert (await shop.look(job)).status is JobStatus.COMPLETED
