"""The memory store is the specification: whatever is done to jobs, another store answers the same.

The stories are the same in every run. ``JOBS_AGREE_EXAMPLES=2000`` in the environment asks for that
many, drawn anew (``--hypothesis-seed`` repeats them), and has a story that fails made short, which
takes minutes: ``--timeout=0``.
"""

import asyncio
import os
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import closing
from datetime import timedelta
from itertools import cycle
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.contract.jobs.decisions import VERDICTS, decide
from tests.contract.jobs.wishes import (
    EPOCH,
    TENANTS,
    WORKERS,
    JobWish,
    ageings,
    amendments,
    caps,
    choices,
    filters,
    job_wishes,
    kind_choices,
    label_choices,
    make_wished,
    moments,
    number_id,
    picks,
    tenant_choices,
    tenants,
)

from rota.errors import RotaError
from rota.jobs import Change, Job, JobFilter, JobId, JobStatus, begin_beside
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Cap, HeldLease, JobStore, LeaseRequest

NO_SUCH_PICK = 60
UNKNOWN_ID = number_id(9_999)
CHECKED_EVERY = 4
"""Steps between two looks at all that is kept; what is answered is compared at each."""


class JobStoresAgree(RuleBasedStateMachine):
    """Both stores, side by side. A subclass opens another one than a second in memory."""

    is_kernel_only = False
    """Switches the native paths of the store off, so that the kernel does everything."""

    async def open_empty(self) -> JobStore:
        """A store in which there is nothing yet."""
        return MemoryStore()

    async def reopen(self, store: JobStore) -> JobStore:
        """The same store, closed and opened again."""
        return store

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model: JobStore = MemoryStore()
        self.store: JobStore = self.set_paths(self.run(self.open_empty()))
        self.now = EPOCH
        self.ids: list[JobId] = []
        self.made_count = 0
        self.leased: list[Job] = []
        self.submitted: list[Change] = []
        self.step_count = 0

    def set_paths(self, store: JobStore) -> JobStore:
        if self.is_kernel_only:
            switchable: Any = store
            assert switchable.uses_native_paths
            switchable.uses_native_paths = False
        return store

    def teardown(self) -> None:
        try:
            self.compare_all()
        finally:
            self.run(self.store.close())
            self.runner.close()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(call)

    def compare(self, verb: str, *arguments: Any, **named: Any) -> Any:
        expected, actual = (
            self.run(answer(getattr(store, verb)(*arguments, **named)))
            for store in (self.model, self.store)
        )
        assert actual == expected, verb
        return expected

    def pick_id(self, pick: int) -> JobId:
        return self.ids[pick % len(self.ids)] if self.ids and pick != NO_SUCH_PICK else UNKNOWN_ID

    def pick_job(self, pick: int) -> Job | None:
        """The job as the model has it."""
        job_id = self.pick_id(pick)
        found = [self.run(self.model.get(tenant, [job_id])) for tenant in TENANTS]
        return next((jobs[job_id] for jobs in found if jobs), None)

    def pick_tenant(self, pick: int) -> str:
        """The tenant of the picked job, or now and then another."""
        job = self.pick_job(pick)
        return TENANTS[0] if job is None or pick % 10 == 0 else job.tenant

    @rule(wishes=st.lists(job_wishes, min_size=1, max_size=4))
    def insert(self, wishes: list[JobWish]) -> None:
        new_ids = [number_id(self.made_count + place) for place in range(len(wishes))]
        self.made_count += len(wishes)
        known = [*self.ids, *new_ids]
        jobs: list[Job] = []
        for wish, new_id in zip(wishes, new_ids, strict=True):
            job_id = new_id if wish.under_id is None else known[-1 - wish.under_id % len(known)]
            chosen = (
                UNKNOWN_ID if pick == NO_SUCH_PICK else known[-1 - pick % len(known)]
                for pick in wish.dependencies
            )
            jobs.append(make_wished(wish, job_id, tuple(dict.fromkeys(chosen)), self.now))
        self.remember(self.compare("insert", jobs, self.now))

    def remember(self, inserted: Any) -> None:
        if isinstance(inserted, list):
            new = (one.job.id for one in inserted if not one.is_existing)
            self.ids += [job_id for job_id in new if job_id not in self.ids]

    @initialize(wishes=st.lists(job_wishes, min_size=8, max_size=12))
    def begin_with_some(self, wishes: list[JobWish]) -> None:
        self.insert_what_is_free(wishes)

    @rule(wishes=st.lists(job_wishes, min_size=1, max_size=4))
    def insert_what_is_free(self, wishes: list[JobWish]) -> None:
        """Jobs that every store accepts, so that there is always work."""
        self.insert(
            [
                wish._replace(dependencies=(), under_id=None, key=None, due_in=None)
                for wish in wishes
            ]
        )

    @rule(wishes=st.lists(job_wishes, min_size=2, max_size=4))
    def insert_a_chain(self, wishes: list[JobWish]) -> None:
        """Each waits for the one before it, in one tenant."""
        self.insert(
            [
                wish._replace(
                    tenant=TENANTS[0],
                    dependencies=(len(wishes) - place,) if place else (),
                    under_id=None,
                    key=None,
                    due_in=None,
                    series=None,
                )
                for place, wish in enumerate(wishes)
            ]
        )

    @rule(
        worker=st.sampled_from(WORKERS),
        limit=st.sampled_from([1, 2, 3, 7, 100]),
        lease_for=st.sampled_from([timedelta(seconds=10), timedelta(minutes=5)]),
        queues=choices,
        chosen=tenant_choices,
        after_tenant=st.sampled_from(["", *TENANTS, "m", "zz"]),
        caps=st.just(()) | caps,
        ageing=st.none() | ageings,
        kinds=kind_choices,
        labels=label_choices,
    )
    def lease(
        self,
        *,
        worker: str,
        limit: int,
        lease_for: timedelta,
        queues: list[str] | None,
        chosen: list[str] | None,
        after_tenant: str,
        caps: tuple[Cap, ...],
        ageing: dict[str, timedelta] | None,
        kinds: list[str] | None,
        labels: list[str] | None,
    ) -> None:
        request = LeaseRequest(
            worker=worker,
            limit=limit,
            lease_for=lease_for,
            queues=queues,
            tenants=chosen,
            after_tenant=after_tenant,
            caps=caps,
            ageing=ageing,
            kinds=kinds,
            labels=labels,
        )
        self.leased += self.compare("lease", request, self.now)

    @rule(
        limit=st.integers(min_value=1, max_value=12),
        verdicts=st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=5),
        takes=st.sampled_from([timedelta(0), timedelta(seconds=3), timedelta(seconds=11)]),
        round_count=st.integers(min_value=1, max_value=4),
    )
    def work(self, limit: int, verdicts: list[str], takes: timedelta, round_count: int) -> None:
        """As a worker does: lease some, and settle them all at once a little later."""
        request = LeaseRequest(worker=WORKERS[0], limit=limit, lease_for=timedelta(seconds=10))
        for _ in range(round_count):
            leased = self.compare("lease", request, self.now)
            self.leased += leased
            self.now += takes
            pairs = zip(leased, cycle(verdicts), strict=False)
            changes = [decide(job, verdict, self.now) for job, verdict in pairs]
            self.apply([change for change in changes if change is not None])

    @precondition(lambda self: self.leased)
    @rule(picked=st.lists(st.tuples(picks, st.sampled_from(VERDICTS)), min_size=1, max_size=5))
    def settle(self, picked: list[tuple[int, str]]) -> None:
        """Several at once: of leases old and new, some of them settled before."""
        changes = [
            decide(self.leased[-1 - pick % len(self.leased)], verdict, self.now)
            for pick, verdict in picked
        ]
        self.apply([change for change in changes if change is not None])

    @rule(picked=st.lists(st.tuples(picks, st.sampled_from(VERDICTS)), min_size=1, max_size=3))
    def settle_as_it_is_kept(self, picked: list[tuple[int, str]]) -> None:
        """What is decided about jobs just read, whatever their status: most of it holds."""
        jobs = [(self.pick_job(pick), verdict) for pick, verdict in picked]
        changes = [decide(job, verdict, self.now) for job, verdict in jobs if job is not None]
        self.apply([change for change in changes if change is not None])

    @rule(limit=st.sampled_from([1, 3, 50]))
    def sweep(self, limit: int) -> None:
        """As a worker rescues jobs: page by page until there are no more."""
        page = self.compare("find_expired", self.now, limit)
        while page:
            self.apply([change for job in page if (change := decide(job, "lost", self.now))])
            page = self.compare("find_expired", self.now, limit, page[-1])

    @precondition(lambda self: self.submitted)
    @rule(picked=st.lists(picks, min_size=1, max_size=3))
    def settle_again(self, picked: list[int]) -> None:
        self.apply([self.submitted[-1 - pick % len(self.submitted)] for pick in picked])

    @precondition(lambda self: self.submitted)
    @rule(pick=picks)
    def go_a_way_that_is_closed(self, pick: int) -> None:
        change = self.submitted[pick % len(self.submitted)]
        forged = replace(change, path=(JobStatus.COMPLETED, JobStatus.READY))
        self.compare("apply", [change, forged], self.now)

    def apply(self, changes: Sequence[Change]) -> None:
        self.submitted += changes
        applied = self.compare("apply", changes, self.now)
        self.ids += [one.successor.id for one in applied if one.successor is not None]

    @precondition(lambda self: self.leased)
    @rule(pick=picks)
    def begin_beside(self, pick: int) -> None:
        """As when a job starts whose series may overlap itself."""
        beside = begin_beside(self.leased[-1 - pick % len(self.leased)], self.now)
        if beside is not None:
            self.apply([beside])

    @precondition(lambda self: self.leased)
    @rule(
        picked=st.lists(picks, min_size=1, max_size=4),
        lasts=moments,
        is_from_a_thread=st.booleans(),
    )
    def extend(self, picked: list[int], lasts: timedelta, *, is_from_a_thread: bool) -> None:
        held, until = self.list_held(picked), self.now + lasts
        if not is_from_a_thread:
            self.compare("extend", held, until, self.now)
            return
        with closing(self.model.make_keeper()) as model, closing(self.store.make_keeper()) as other:
            assert other.extend(held, until, self.now) == model.extend(held, until, self.now)

    def list_held(self, picked: Iterable[int]) -> list[HeldLease]:
        jobs = [self.leased[-1 - pick % len(self.leased)] for pick in picked]
        return [HeldLease(job.id, job.last_token) for job in jobs]

    @rule(pick=picks, fields=amendments, due_in=st.none() | moments)
    def amend(self, pick: int, fields: dict[str, Any], due_in: timedelta | None) -> None:
        due = {} if due_in is None else {"due_at": self.now + due_in}
        job_id, tenant = self.pick_id(pick), self.pick_tenant(pick)
        self.compare("amend", tenant, job_id, {**fields, **due}, self.now)

    @rule(pick=picks, others=st.lists(picks, max_size=2))
    def wait_for_others(self, pick: int, others: list[int]) -> None:
        job = self.pick_job(pick)
        if job is not None:
            dependencies = [self.pick_id(other) for other in others]
            fields = {"dependencies": dependencies, "priority": 1 + pick % 10}
            self.compare("amend", job.tenant, job.id, fields, self.now)

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        self.compare("delete", self.pick_tenant(pick), self.pick_id(pick))

    @rule(ago=moments, limit=st.sampled_from([1, 2, 50]))
    def prune(self, ago: timedelta, limit: int) -> None:
        self.compare("prune", self.now - ago, limit)

    @rule(
        step=st.sampled_from(
            [
                timedelta(microseconds=1),
                timedelta(seconds=11),
                timedelta(minutes=6, microseconds=3),
                timedelta(minutes=1),
                timedelta(hours=25),
                timedelta(seconds=-12),
            ]
        )
    )
    def let_time_pass(self, step: timedelta) -> None:
        self.now += step

    @rule(
        tenant=tenants,
        wanted=filters,
        limit=st.sampled_from([1, 3, 100]),
        picked=st.lists(picks, max_size=4),
        queues=choices,
        chosen=tenant_choices,
    )
    def read(
        self,
        *,
        tenant: str,
        wanted: JobFilter | None,
        limit: int,
        picked: list[int],
        queues: list[str] | None,
        chosen: list[str] | None,
    ) -> None:
        self.compare("count", tenant, wanted)
        page = self.compare("find", tenant, wanted, limit=limit)
        while page.has_more:
            page = self.compare("find", tenant, wanted, page.next_cursor, limit)
        self.compare("get", tenant, [self.pick_id(pick) for pick in picked])
        for pick in picked:
            self.compare("attempts", tenant, self.pick_id(pick))
        self.compare("next_due_at", self.now, queues, chosen)
        self.compare("find_expired", self.now, limit)
        self.compare("survey", self.now)
        self.compare("survey", self.now, tenant)
        named = [self.pick_id(pick) for pick in picked]
        self.compare("find_dependents", tenant, named, limit)

    @rule()
    def close_and_reopen(self) -> None:
        self.store = self.set_paths(self.run(self.reopen(self.store)))

    @invariant()
    def both_hold_the_same(self) -> None:
        self.step_count += 1
        if self.step_count % CHECKED_EVERY == 0:
            self.compare_all()

    def compare_all(self) -> None:
        for tenant in TENANTS:
            page = self.compare("find", tenant, limit=100)
            for job in page.items:
                self.compare("attempts", tenant, job.id)
            self.compare("results", tenant, [job.id for job in page.items])
        self.compare("next_due_at", self.now)


async def answer(call: Coroutine[Any, Any, Any]) -> Any:
    """What a call gives, or what it was refused with."""
    try:
        return await call
    except RotaError as error:
        return type(error), error.message, error.details


def thoroughness(example_count: int) -> settings:
    """How much is tried; see above."""
    asked = os.environ.get("JOBS_AGREE_EXAMPLES")
    return settings(
        max_examples=int(asked) if asked else example_count,
        stateful_step_count=50,
        deadline=None,
        derandomize=not asked,
        database=None,
        phases=[Phase.generate, Phase.shrink] if asked else [Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
