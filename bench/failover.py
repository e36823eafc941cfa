"""PostgreSQL primaries that fail under load, with Patroni, etcd and HAProxy on this machine.

    python bench/failover.py                         # 5 failovers, synchronous: about 2 minutes
    python bench/failover.py --rounds 50             # about a quarter of an hour
    python bench/failover.py --asynchronous          # what a lagging standby loses
    python bench/failover.py --pooled                # the load goes through PgBouncer too

Two programs add jobs and two work them off. Of each pair one connects through HAProxy, the other
by an address that names all servers. At the end a judge compares what the programs wrote down with
what the store has. It exits with 1 if a synchronous cluster lost or doubled anything.
"""

import argparse
import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

from bench.failover_parts.judge import (  # noqa: E402 - found by the path above
    Seen,
    Verdict,
    judge,
    longest_gap,
    read_journals,
    wait_until_done,
)
from tests.servers.groups.patroni import (  # noqa: E402 - likewise
    Member,
    PatroniCluster,
    missing_programs,
    versions,
)
from tests.servers.pgbouncer import PgBouncer, find_pgbouncer  # noqa: E402 - likewise
from tests.servers.shared import temporary_root  # noqa: E402 - likewise

RATE = 12.0
"""Jobs that each program adds in a second."""
LEASE_SECONDS = 15.0
CALM_SECONDS = 2.0
"""How long work goes on between two failovers."""
LAG_SECONDS = 3.0
"""How long the standby receives nothing before an asynchronous primary is killed."""

Way = Callable[[PatroniCluster, Member], None]


def hand_over(cluster: PatroniCluster, primary: Member) -> None:
    cluster.switch_over(primary)


def kill_server(cluster: PatroniCluster, primary: Member) -> None:
    """Patroni replaces it; if the standby is not fit at that moment, it starts it again."""
    former = primary.postgres.process_id
    primary.postgres.kill()
    cluster.wait_for_leader(lambda leader: leader.postgres.process_id != former)


def kill_everything(cluster: PatroniCluster, primary: Member) -> None:
    primary.kill_everything()
    cluster.wait_for_leader(lambda leader: leader is not primary)
    primary.start()


def kill_before_a_lagging_standby(cluster: PatroniCluster, primary: Member) -> None:
    """Stop the process that receives on the standby, and kill the primary some seconds later."""
    standby = next(each for each in cluster.members if each is not primary)
    receivers = find_receivers(standby)
    for process_id in receivers:
        os.kill(process_id, signal.SIGSTOP)
    time.sleep(LAG_SECONDS)
    primary.postgres.kill()
    for process_id in receivers:
        os.kill(process_id, signal.SIGKILL)  # what it had not read is gone with the network
    cluster.wait_for_leader(lambda leader: leader is not primary)


def find_receivers(standby: Member) -> list[int]:
    """The processes of a standby that receive what the primary writes."""
    head = standby.postgres.process_id
    children = Path(f"/proc/{head}/task/{head}/children").read_text().split()
    named = [(int(each), Path(f"/proc/{each}/cmdline").read_text()) for each in children]
    return [process_id for process_id, name in named if "walreceiver" in name]


def choose_way(number: int, *, is_asynchronous: bool) -> Way:
    if is_asynchronous:
        return kill_before_a_lagging_standby
    if number % 10 == 5:
        return kill_everything
    return kill_server if number % 2 else hand_over


class Load:
    """The programs, and the files they write."""

    def __init__(self, folder: Path, urls: list[str]) -> None:
        self._folder = folder
        self.adding = [
            self._start("add", url, f"added-{url_number}", RATE)
            for url_number, url in enumerate(urls)
        ]
        self.working = [
            self._start("work", url, f"worked-{url_number}", LEASE_SECONDS)
            for url_number, url in enumerate(urls)
        ]

    def read(self) -> Seen:
        return read_journals(self._folder.glob("[aw]*ed-*"))

    def _start(self, role: str, url: str, name: str, figure: float) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", "bench.failover_parts.load"]
        with (self._folder / f"errors-{name}").open("wb") as errors:
            return subprocess.Popen(
                [*program, role, url, str(self._folder / name), str(figure)],
                cwd=HERE.parent,
                stdout=errors,
                stderr=errors,
            )

    def end(self, programs: "list[subprocess.Popen[bytes]]") -> None:
        for each in programs:
            if each.poll() is not None:
                raise RuntimeError(f"a program of the load ended early: {each.args!r}")
            each.terminate()
        for each in programs:
            each.wait(120)

    def kill(self) -> None:
        for each in (*self.adding, *self.working):
            if each.poll() is None:
                each.kill()
                each.wait()


def fail_over(cluster: PatroniCluster, load: Load, number: int, way: Way) -> tuple[float, float]:
    """One failover; the span of time from its cause until the cluster is whole again."""
    cluster.wait_until_whole()
    time.sleep(CALM_SECONDS)
    before = load.read()
    primary = cluster.find_leader()
    if primary is None:
        raise RuntimeError("there is no primary")
    begin = time.time()
    way(cluster, primary)
    cluster.wait_until_whole()
    wait_for_more(load, len(before.acknowledged))
    seen = load.read()
    gaps = [longest_gap(times, begin, time.time()) for times in seen.acknowledged_by.values()]
    ended = "started again" if cluster.find_leader() is primary else "replaced"
    print(
        f"{number + 1:3} {way.__name__:30} {ended}, whole after {time.time() - begin:.1f} s; "
        f"longest pause of each adder {', '.join(f'{gap:.1f}' for gap in gaps)} s; "
        f"{len(seen.acknowledged)} acknowledged",
        flush=True,
    )
    return begin, time.time()


def wait_for_more(load: Load, count: int) -> None:
    gives_up_at = time.monotonic() + 120
    while len(load.read().acknowledged) <= count + 5:
        if time.monotonic() > gives_up_at:
            raise RuntimeError("no job is acknowledged any more")
        time.sleep(0.2)


def run(given: argparse.Namespace, folder: Path) -> Verdict:
    cluster = PatroniCluster(folder, given.members, is_synchronous=not given.asynchronous)
    cleanups: list[Callable[[], None]] = [cluster.stop]
    try:
        cluster.start()
        urls = [cluster.url, cluster.members_url]
        if given.pooled:
            pooler = start_pooler(cluster, folder)
            cleanups.insert(0, pooler.remove)
            urls[0] = pooler.url
        asyncio.run(wait_until_done(cluster.url, 60))  # creates the schema
        load = Load(folder, urls)
        cleanups.insert(0, load.kill)
        wait_for_more(load, 20)
        spans: list[tuple[float, float]] = []
        for number in range(given.rounds):
            way = choose_way(number, is_asynchronous=given.asynchronous)
            spans.append(fail_over(cluster, load, number, way))
        load.end(load.adding)
        asyncio.run(wait_until_done(cluster.url, 300))
        load.end(load.working)
        seen = load.read()
        verdict = asyncio.run(judge(cluster.url, seen))
        report(seen, verdict, spans)
        return verdict
    finally:
        for cleanup in cleanups:
            cleanup()


def start_pooler(cluster: PatroniCluster, folder: Path) -> PgBouncer:
    """PgBouncer before HAProxy."""
    program = find_pgbouncer()
    if program is None:
        raise SystemExit("there is no pgbouncer on this machine")
    pooler = PgBouncer(program, folder / "pgbouncer", cluster.url, ["server_login_retry = 1"])
    pooler.create()
    pooler.start()
    return pooler


def report(seen: Seen, verdict: Verdict, spans: list[tuple[float, float]]) -> None:
    pauses = [
        longest_gap(times, *span) for times in seen.acknowledged_by.values() for span in spans
    ]
    print(
        f"{len(spans)} failovers, {len(seen.acknowledged)} jobs acknowledged "
        f"({seen.found_again} of them in doubt at first), {sum(map(len, seen.runs.values()))} runs"
    )
    print(f"refused calls by outcome: {dict(seen.refusals)}")
    print(
        f"pause of an adder: median {statistics.median(pauses):.1f} s, longest {max(pauses):.1f} s"
    )
    for name, jobs in vars(verdict).items():
        print(f"{name.replace('_', ' ')}: {len(jobs)}")
    for begin, end in spans:
        times = [seen.acknowledged[each] for each in verdict.lost]
        ages = [at - begin for at in times if begin <= at <= end]
        if ages:
            print(
                f"lost in one failover: {len(ages)} jobs, acknowledged from {min(ages):.2f} s to "
                f"{max(ages):.2f} s after the standby fell behind"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--pooled", action="store_true")
    given = parser.parse_args()
    missing = missing_programs()
    if missing:
        raise SystemExit(f"this machine lacks {', '.join(missing)}")
    print(versions(), flush=True)
    folder = Path(tempfile.mkdtemp(prefix="rota-failover-", dir=temporary_root()))
    folder.chmod(0o711)
    try:
        verdict = run(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not given.asynchronous and not verdict.is_right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
