"""Mistakes that the simulation of the fleet must find, each a change of one place.

``python -m tests.verification.fleet_mutants`` tries each in a process of its own, until a seed
catches it, and prints which rules were broken after how many seeds; ``--only NAME`` tries one. Exit
status 1 if one is not caught.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any, NamedTuple

SEEDS = range(1_500)
"""A mistake that none of these finds counts as not caught."""


class Mutant(NamedTuple):
    """In a module, one text stands instead of another."""

    name: str
    module: str
    before: str
    after: str


MUTANTS = (
    Mutant(
        "fence: a change with an old token is written",
        "rota.stores.kernel.settlement",
        "(stored.status, stored.last_token) != (change.expected_status, change.expected_token)",
        "stored.status != change.expected_status",
    ),
    Mutant(
        "fence: a change from another state is written",
        "rota.stores.kernel.settlement",
        "(stored.status, stored.last_token) != (change.expected_status, change.expected_token)",
        "stored.last_token != change.expected_token",
    ),
    Mutant(
        "fence: a lease does not raise the token",
        "rota.jobs.transitions",
        "token = job.last_token + 1\n",
        "token = max(job.last_token, 1)\n",
    ),
    Mutant(
        "lease: a job is leased before it is due",
        "rota.jobs.ordering",
        "return job.status is JobStatus.READY and job.due_at <= now",
        "return job.status is JobStatus.READY and job.due_at <= now + timedelta(seconds=5)",
    ),
    Mutant(
        "lease: every lease counts as expired",
        "rota.jobs.ordering",
        "job.lease.until < now",
        "job.lease.taken_at < now",
    ),
    Mutant(
        "lease: a handler continues after its lease has ended",
        "rota.worker.heartbeat",
        "self._executor.cancel(attempt, CancelReason.LAPSED)",
        "attempt.cancel_reason = CancelReason.LAPSED",
    ),
    Mutant(
        "lease: the end of a lease is noticed one heartbeat late",
        "rota.worker.heartbeat",
        "await clock.sleep_until(self._watched_until)",
        "await clock.sleep_until(self._watched_until + self.interval)",
    ),
    Mutant(
        "lease: a lost lease is not noticed",
        "rota.worker.heartbeat",
        "            if not is_held:\n",
        "            if is_held is None:\n",
    ),
    Mutant(
        "lease: the time that the answer takes does not count",
        "rota.worker.producer",
        "await self._pass_on(jobs, now + settings.lease_for)",
        "await self._pass_on(jobs, clock.now() + settings.lease_for)",
    ),
    Mutant(
        "lease: a heartbeat extends no lease",
        "rota.stores.memory.store",
        "until=max(job.lease.until, until)",
        "until=job.lease.until",
    ),
    Mutant(
        "rescue: no worker sweeps",
        "rota.worker.rescuer",
        "            await self.sweep()\n",
        "",
    ),
    Mutant(
        "rescue: a loss is written although the lease was extended",
        "rota.stores.kernel.settlement",
        "return is_stalled(stored, now) if is_loss else True",
        "return True",
    ),
    Mutant(
        "rescue: a lost attempt is not spent",
        "rota.jobs.transitions",
        "attempt_count=job.attempt_count + 1",
        "attempt_count=job.attempt_count + (not loss_count)",
    ),
    Mutant(
        "release: a dependent waits forever",
        "rota.stores.kernel.settlement",
        "is_released = lowered.open_count == 0",
        "is_released = lowered.open_count < 0",
    ),
    Mutant(
        "release: a failure blocks a job with on_parent_failure=run",
        "rota.stores.kernel.settlement",
        'if child.on_parent_failure == "run":',
        'if child.on_parent_failure == "never":',
    ),
    Mutant(
        "recurrence: a series ends after its first occurrence",
        "rota.stores.kernel.settlement",
        "    following = change.successor\n",
        "    following = None\n",
    ),
    Mutant(
        "recurrence: an occurrence gets a new id each time",
        "rota.jobs.fields",
        'sha256(f"{parent_id}|{occurrence_at.isoformat()}".encode())',
        "sha256(__import__('os').urandom(8))",
    ),
    Mutant(
        "keys: the same key creates another job",
        "rota.stores.kernel.placement",
        "found = by_id.get(job.id) or (by_identity.get(identity) if identity else None)",
        "found = by_id.get(job.id)",
    ),
    Mutant(
        "once: a caller does not wait for the claim of another",
        "rota.policy.once",
        "if effect.state is EffectState.RUNNING and now < effect.until:",
        "if effect.state is EffectState.RUNNING and now < effect.started_at:",
    ),
    Mutant(
        "once: an effect begins again after a crash, even with at_most_once",
        "rota.policy.once",
        'return Verdict.BEGIN if on_crash == "at_least_once" else Verdict.GIVE_UP',
        "return Verdict.BEGIN",
    ),
    Mutant(
        "once: a claim with a stale version counts",
        "rota.policy.once",
        "if await self._write(tenant, key, expected, claim) is not None:",
        "if await self._write(tenant, key, expected, claim) is not Ellipsis:",
    ),
    Mutant(
        "gates: a worker trusts an old reading",
        "rota.policy.watch",
        "at <= now < until",
        "at <= now",
    ),
    Mutant(
        "gates: a limit does not count the jobs that run",
        "rota.stores.kernel.limits",
        "[cap.running - running_count]",
        "[cap.running]",
    ),
    Mutant(
        "gates: a pause has no effect",
        "rota.policy.limits",
        "return self.running if self.paused is None else 0",
        "return self.running",
    ),
    Mutant(
        "clock: a process uses the clock of its host",
        "rota.clock.corrected",
        "return self._inner.now() if timeline is None else timeline.show(self._elapsed())",
        "return self._inner.now()",
    ),
    Mutant(
        "scheduler: a claim that came second counts",
        "rota.scheduler.ownership",
        "return [version is not None for version in versions]",
        "return [True for version in versions]",
    ),
    Mutant(
        "scheduler: the run of a dead peer is not repeated",
        "rota.scheduler.ownership",
        "return state.running and (owner == self.identifier or owner not in self._living)",
        "return state.running and owner == self.identifier",
    ),
    Mutant(
        "scheduler: a missed occurrence is not caught up",
        "rota.scheduler.task",
        "    if occurrence_at is not None and not _is_covered_by_retry(state, occurrence_at, now):",
        "    if occurrence_at is not None and (\n"
        "        state.last_attempt_at is None or occurrence_at > now - timedelta(seconds=3)\n"
        "    ):",
    ),
    Mutant(
        "scheduler: a failed run is not repeated",
        "rota.scheduler.task",
        "    if retry_at is not None and retry_at <= now:",
        "    if retry_at is not None and retry_at < retry_at:",
    ),
    Mutant(
        "poller: a locked document is taken",
        "rota.poller.jobs",
        "return None if job.lease is None else job.lease.until",
        "return None if job.lease is None else job.lease.taken_at",
    ),
    Mutant(
        "disk: a commit is acknowledged before the disk has it",
        "rota.stores.sqlite.connection",
        "            _run_script(connection, QUERIES.configure_writer)\n            applied",
        '            _run_script(connection, "PRAGMA synchronous = NORMAL")\n            applied',
    ),
)


class MutatedLoader(SourceFileLoader):
    """Loads a module with another text in one place."""

    before = after = ""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_source(fullname) or ""
        if source.count(self.before) != 1:
            count = source.count(self.before)
            raise ImportError(f"{fullname} holds {count} times, not once: {self.before!r}")
        return compile(source.replace(self.before, self.after), self.path, "exec")


class MutatedModules(MetaPathFinder):
    """Finds one module, to be loaded with a mistake."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            loader = MutatedLoader(fullname, spec.origin)
            loader.before, loader.after = self._mutant.before, self._mutant.after
            spec.loader = loader
        return spec


class Catch(NamedTuple):
    """The rules that a seed found broken, and the number of seeds that were played for it."""

    rules: str
    seed_count: int


def hunt(mutant: Mutant, seeds: range) -> Catch | None:
    """What found the mistake. Call it before anything of Rota is loaded."""
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} is loaded already, without the mistake")
    sys.meta_path.insert(0, MutatedModules(mutant))
    from tests.verification.fleet.trial import try_fleet

    for count, seed in enumerate(seeds, 1):
        try:
            findings = try_fleet(seed).findings
        except Exception as error:  # noqa: BLE001 - a fleet that cannot be played is found out, too
            return Catch(type(error).__name__, count)
        if findings:
            rules = Counter(finding.rule for finding in findings)
            return Catch(", ".join(sorted(rules)), count)
    return None


def hunt_apart(mutant: Mutant, seeds: range) -> Catch | None:
    """As ``hunt``, in a process of its own."""
    command = [sys.executable, "-m", "tests.verification.fleet_mutants", "--hunt", mutant.name]
    ended = subprocess.run(
        [*command, "--seeds", f"{seeds.start}:{seeds.stop}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    rules, _, count = ended.stdout.strip().rpartition(" after ")
    return Catch(rules, int(count)) if rules else None


def read_seeds(text: str) -> range:
    """``0:1500`` is the seeds from 0 to 1499."""
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(arguments: Sequence[str]) -> int:
    """The command, with its exit status."""
    parser = ArgumentParser(prog="python -m tests.verification.fleet_mutants")
    parser.add_argument("--only", default="", help="mutants whose name holds this")
    parser.add_argument("--hunt", help="this one, here")
    parser.add_argument("--seeds", type=read_seeds, default=SEEDS, metavar="FIRST:LAST")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    if given.hunt:
        caught = hunt(find_mutant(given.hunt), given.seeds)
        _say("" if caught is None else f"{caught.rules} after {caught.seed_count}")
        return 0
    return _hunt_all([each for each in MUTANTS if given.only in each.name], given.seeds, given.jobs)


def _hunt_all(mutants: Sequence[Mutant], seeds: range, job_count: int) -> int:
    width = max((len(mutant.name) for mutant in mutants), default=0)
    escaped = 0
    with ThreadPoolExecutor(job_count) as pool:
        catches = pool.map(lambda mutant: hunt_apart(mutant, seeds), mutants)
        _say(f"{'mistake':<{width}}  seeds  caught by")
        for mutant, caught in zip(mutants, catches, strict=True):
            escaped += caught is None
            count, rules = (len(seeds), "NOT CAUGHT") if caught is None else caught[::-1]
            _say(f"{mutant.name:<{width}}  {count:>5}  {rules}")
    _say(f"{len(mutants) - escaped} of {len(mutants)} caught")
    return 1 if escaped or not mutants else 0


def find_mutant(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
