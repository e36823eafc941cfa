"""The command; see the package. Exit status 1 if a score is below the one that is wanted."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.verification.mutation.changes import Change, walk
from tests.verification.mutation.plugin import APART, MISSED, NOTICED

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "rota"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
"""Changes after which a package does the same: module, line as it reads, change, and why."""

_MEMORY = (
    "tests/contract/test_memory_jobs_contract.py",
    "tests/contract/jobs/test_memory_jobs_agree.py",
)
_SQLITE = (
    "tests/contract/sqlite/test_sqlite_contract.py",
    "tests/contract/sqlite/test_sqlite_jobs_contract.py",
    "tests/contract/jobs/test_sqlite_jobs_agree.py",
    "tests/unit/stores/sqlite",
)
"""The memory store leases and copies by itself, so it uses only a part of the kernel."""
_SPECIFIED_JOBS = (
    "tests/spec/3/test_job_rules.py",
    "tests/spec/5/test_business_logic.py",
    "tests/spec/5/test_job_model.py",
)
_SPECIFIED_TRIGGERS = ("tests/spec/1/test_cron_language.py", "tests/spec/2/test_cron_whitespace.py")
"""What a specification says of a package is tested with the specification."""
_STORED_SETTINGS = (
    "tests/unit/rail/test_audit.py",
    "tests/unit/rail/test_stored_gates.py",
    "tests/unit/rail/test_stored_limits.py",
    "tests/unit/worker/test_producer_gates.py",
    "tests/unit/worker/test_producer_limits.py",
    "tests/unit/worker/test_pruner.py",
)
"""The audit log, retention and what is stored of gates are tested with those that use them."""


class Package(NamedTuple):
    """A package and the tests that are to notice its mistakes."""

    folder: str
    tests: tuple[str, ...]


PACKAGES = {
    "jobs": Package("jobs", ("tests/unit/jobs", *_SPECIFIED_JOBS, *_MEMORY)),
    "triggers": Package("triggers", ("tests/unit/triggers", *_SPECIFIED_TRIGGERS)),
    "policy": Package("policy", ("tests/unit/policy", *_STORED_SETTINGS)),
    "kernel": Package("stores/kernel", ("tests/unit/stores/kernel", *_MEMORY, *_SQLITE)),
}


class Mutant(NamedTuple):
    """A change, and what its line reads like."""

    module: str
    change: Change
    text: str

    def __str__(self) -> str:
        return (
            f"{self.name} {self.module}.py line {self.change.line}, {self.change.what}: {self.text}"
        )

    @property
    def name(self) -> str:
        return f"{self.module}:{self.change.number}"

    @property
    def key(self) -> tuple[str, str, str]:
        """The same while other lines of the module change."""
        return self.module, self.change.what, self.text


def list_mutants(package: Package) -> list[Mutant]:
    """Every change that can be made in a package."""
    prefix = f"rota.{package.folder.replace('/', '.')}"
    files = sorted((SOURCES / package.folder).glob("*.py"))
    sources = {
        f"{prefix}.{file.stem}": file.read_text() for file in files if file.stem != "__init__"
    }
    return [
        Mutant(module, change, sources[module].splitlines()[change.line - 1].strip())
        for module, change in walk(sources)
    ]


def read_equivalent() -> set[tuple[str, str, str]]:
    """The mutants that no test can notice, by their keys."""
    lines = EQUIVALENT.read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return {(module, what, text) for module, what, text, _ in rows}


def run_tests(package: Package, **settings: str | Path) -> int:
    """The exit status of a package's tests under the plugin; ``settings`` are its variables."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["-p", "tests.verification.mutation.plugin", *package.tests]
    environment = os.environ | {f"ROTA_{name}": str(value) for name, value in settings.items()}
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    if ended.returncode != 0 and "MUTANT" not in settings:
        raise RuntimeError(f"the tests fail without a change\n{ended.stdout.decode()}")
    return ended.returncode


def try_mutants(package: Package, reaches: Path, names: Sequence[str]) -> dict[str, str]:
    """What came of each mutant."""
    with TemporaryDirectory() as folder:
        mutants, verdicts = Path(folder) / "mutants", Path(folder) / "verdicts"
        mutants.write_text("\n".join(names))
        run_tests(package, REACHES=reaches, MUTANTS=mutants, VERDICTS=verdicts)
        found = dict(line.split() for line in verdicts.read_text().splitlines())
    for name in (name for name, verdict in found.items() if verdict == APART):
        found[name] = NOTICED if run_tests(package, REACHES=reaches, MUTANT=name) else MISSED
    return found


def find_interval(noticed: int, tried: int) -> tuple[float, float]:
    """Wilson's interval: it holds the share of all changes with a probability of 95 %."""
    z, share = 1.96, noticed / tried
    middle = share + z * z / (2 * tried)
    margin = z * sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    whole = 1 + z * z / tried
    return (middle - margin) / whole, (middle + margin) / whole


def score(name: str, chosen: Sequence[Mutant], total: int, jobs: int) -> float:
    """Try the mutants of a package, say which were missed, and return the share noticed."""
    package, equivalent = PACKAGES[name], read_equivalent()
    shares = [[mutant.name for mutant in chosen[first::jobs]] for first in range(jobs)]
    found: dict[str, str] = {}
    with TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        reaches = Path(folder) / "reaches.json"
        run_tests(package, REACHES=reaches, RECORDED=SOURCES / package.folder)
        for part in pool.map(lambda names: try_mutants(package, reaches, names), shares):
            found |= part
    missed = [mutant for mutant in chosen if found[mutant.name] == MISSED]
    same = [mutant for mutant in missed if mutant.key in equivalent]
    for mutant in missed:
        _say(f"{'the same' if mutant in same else 'MISSED'}  {mutant}")
    tried = len(chosen) - len(same)
    noticed = len(chosen) - len(missed)
    share = noticed / tried
    low, high = find_interval(noticed, tried)
    _say(
        f"{name}: {noticed} of {tried} noticed, {share:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}), {len(same)} do the same, {total} possible"
    )
    return share


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.verification.mutation")
    parser.add_argument("--package", choices=[*PACKAGES, "all"], default="all")
    parser.add_argument("--sample", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.9, help="the share that must be noticed")
    parser.add_argument("--only", help="these mutants, by their names, with commas")
    given = parser.parse_args(arguments)
    scores = []
    for name in PACKAGES if given.package == "all" else [given.package]:
        mutants = list_mutants(PACKAGES[name])
        chosen = Random(given.seed).sample(mutants, min(given.sample, len(mutants)))
        if given.only:
            chosen = [mutant for mutant in mutants if mutant.name in given.only.split(",")]
        if chosen:
            scores.append(score(name, chosen, len(mutants), min(given.jobs, len(chosen))))
    return 0 if min(scores) >= given.least else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
