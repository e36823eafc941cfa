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

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "rota"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
"""Changes after which a package does the same: module, line as it reads, change, and why."""
LONGEST_SECONDS = 900
"""A change that makes the tests run for longer counts as noticed."""

_MEMORY = (
    "tests/contract/test_memory_jobs_contract.py",
    "tests/contract/jobs/test_memory_jobs_agree.py",
)
_SQLITE = ("tests/contract/sqlite/test_sqlite_jobs_contract.py", "tests/unit/stores/sqlite")
"""The memory store leases and copies by itself, so it uses only a part of the kernel."""


class Package(NamedTuple):
    """A package and the tests that are to notice its mistakes."""

    folder: str
    tests: tuple[str, ...]


PACKAGES = {
    "jobs": Package("jobs", ("tests/unit/jobs", *_MEMORY)),
    "triggers": Package("triggers", ("tests/unit/triggers",)),
    "policy": Package("policy", ("tests/unit/policy",)),
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


def run_tests(package: Package, reaches: Path, mutant: Mutant | None, *, all_of_them: bool) -> bool:
    """Whether the tests pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["-p", "tests.verification.mutation.plugin", *package.tests]
    environment = dict(os.environ)
    if mutant is not None:
        environment["ROTA_MUTANT"] = mutant.name
    if mutant is None or not all_of_them:
        environment["ROTA_REACHES"] = str(reaches)
        environment["ROTA_RECORDED"] = str(SOURCES / package.folder)
    try:
        ended = subprocess.run(
            command,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if mutant is None and ended.returncode != 0:
        raise RuntimeError(f"the tests fail without a change\n{ended.stdout.decode()}")
    return ended.returncode in {0, 5}  # 5: no test reaches the line


def find_interval(noticed: int, tried: int) -> tuple[float, float]:
    """Wilson's interval: it holds the share of all changes with a probability of 95 %."""
    z, share = 1.96, noticed / tried
    middle = share + z * z / (2 * tried)
    margin = z * sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    whole = 1 + z * z / tried
    return (middle - margin) / whole, (middle + margin) / whole


def score(
    name: str, chosen: Sequence[Mutant], total: int, jobs: int, *, all_of_them: bool
) -> float:
    """Try the mutants of a package, say what came of each, and return the share noticed."""
    package, equivalent = PACKAGES[name], read_equivalent()
    missed = same = 0
    with TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        reaches = Path(folder) / "reaches.json"
        if not all_of_them:
            run_tests(package, reaches, None, all_of_them=False)
        passed = pool.map(
            lambda each: run_tests(package, reaches, each, all_of_them=all_of_them), chosen
        )
        for mutant, is_missed in zip(chosen, passed, strict=True):
            if is_missed and mutant.key in equivalent:
                same += 1
                _say(f"the same  {mutant}")
            elif is_missed:
                missed += 1
                _say(f"MISSED    {mutant}")
    tried = len(chosen) - same
    share = (tried - missed) / tried
    low, high = find_interval(tried - missed, tried)
    _say(
        f"{name}: {tried - missed} of {tried} noticed, {share:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}), {same} do the same, {total} possible"
    )
    return share


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.verification.mutation")
    parser.add_argument("--package", choices=[*PACKAGES, "all"], default="all")
    parser.add_argument("--sample", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.9, help="the share that must be noticed")
    parser.add_argument("--only", help="one mutant by its name, with every test of its package")
    given = parser.parse_args(arguments)
    scores = []
    for name in PACKAGES if given.package == "all" else [given.package]:
        mutants = list_mutants(PACKAGES[name])
        chosen = Random(given.seed).sample(mutants, min(given.sample, len(mutants)))
        if given.only:
            chosen = [mutant for mutant in mutants if mutant.name in given.only.split(",")]
        if chosen:
            total, jobs = len(mutants), given.jobs
            scores.append(score(name, chosen, total, jobs, all_of_them=bool(given.only)))
    return 0 if min(scores) >= given.least else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
