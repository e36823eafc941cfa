"""The command; see the package."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.verification.mutation.changes import Change, walk

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "rota"
LONGEST_SECONDS = 900
"""A change that makes the tests run for longer counts as noticed."""

_MEMORY = (
    "tests/contract/test_memory_jobs_contract.py",
    "tests/contract/jobs/test_memory_jobs_agree.py",
)


class Package(NamedTuple):
    """A package and the tests that are to notice its mistakes."""

    folder: str
    tests: tuple[str, ...]


PACKAGES = {
    "jobs": Package("jobs", ("tests/unit/jobs", *_MEMORY)),
    "triggers": Package("triggers", ("tests/unit/triggers",)),
    "policy": Package("policy", ("tests/unit/policy",)),
    "kernel": Package("stores/kernel", ("tests/unit/stores/kernel", *_MEMORY)),
}


class Tried(NamedTuple):
    """A change, and whether a test noticed it."""

    module: str
    change: Change
    is_noticed: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.change.line} ({self.change.what}, {self.change.number})"


def read_sources(package: Package) -> dict[str, str]:
    """The modules of a package."""
    files = sorted((SOURCES / package.folder).glob("*.py"))
    prefix = f"rota.{package.folder.replace('/', '.')}"
    return {f"{prefix}.{file.stem}": file.read_text() for file in files if file.stem != "__init__"}


def try_change(module: str, change: Change, tests: Sequence[str]) -> Tried:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["-p", "no:schemathesis", "-p", "tests.verification.mutation.plugin", *tests]
    environment = {**os.environ, "ROTA_MUTANT": f"{module}:{change.number}"}
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
        return Tried(module, change, is_noticed=True)
    return Tried(module, change, is_noticed=ended.returncode != 0)


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.verification.mutation")
    parser.add_argument("--package", choices=PACKAGES, required=True)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    package = PACKAGES[given.package]
    changes = list(walk(read_sources(package)))
    chosen = Random(given.seed).sample(changes, min(given.sample, len(changes)))
    with ThreadPoolExecutor(given.jobs) as pool:
        tried = pool.map(lambda it: try_change(it[0], it[1], package.tests), chosen)
        missed = 0
        for each in tried:
            missed += not each.is_noticed
            _say(f"{'noticed' if each.is_noticed else 'MISSED '} {each}")
    noticed = len(chosen) - missed
    _say(f"{given.package}: {noticed} of {len(chosen)} noticed, of {len(changes)} possible changes")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
