"""Check the models with spin. With words, only the checks whose name has one of them."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import environ, wait4
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from proof.checks import CHECKS, Check

HERE = Path(__file__).parent
MOST_MEMORY_MB = 2_000
MOST_CPU_SECONDS = 40
DEEPEST = 2_000_000
DEEPEST_MUTANT = 5_000
"""A mutant may grow without end."""

_STATES = re.compile(r"^\s*([\d.e+]+) states, stored", re.MULTILINE)
_DEPTH = re.compile(r"depth reached (\d+), errors: (\d+)")
_FAULT = re.compile(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", re.MULTILINE)
_INCOMPLETE = ("Search not completed", "max search depth too small", "out of memory")


class Result(NamedTuple):
    """What spin found: ``error`` is empty if the properties hold in every state."""

    check: Check
    states: str
    depth: int
    seconds: float
    error: str
    trouble: str = ""

    @property
    def is_expected(self) -> bool:
        return not self.trouble and bool(self.error) == self.check.is_refuted


def run_check(check: Check) -> Result:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copy(HERE / f"{check.model}.pml", place)
        defines = [f"-D{define}" for define in check.defines]
        steps = [
            ["spin", *defines, "-a", f"{check.model}.pml"],
            ["gcc", "-w", "-O1", *_compile_options(check), "-o", "pan", "pan.c"],
        ]
        for step in steps:
            done = subprocess.run(step, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode:
                return Result(check, "", 0, 0.0, "", f"{step[0]}: {done.stdout}{done.stderr}")
        return _explore(check, place)


def _compile_options(check: Check) -> Sequence[str]:
    options = [f"-DMEMLIM={MOST_MEMORY_MB}", "-DVECTORSZ=2048", "-DCOLLAPSE", "-DNFAIR=4"]
    return options if check.is_liveness else [*options, "-DSAFETY"]


def _explore(check: Check, place: Path) -> Result:
    # -E: a model may come to rest anywhere. -a -f: acceptance cycles under weak fairness.
    options = ["-a", "-f"] if check.is_liveness else []
    command = [
        "./pan",
        "-E",
        "-n",
        f"-m{DEEPEST_MUTANT if check.is_refuted else DEEPEST}",
        "-w22",
        *options,
    ]
    limits = ["sh", "-c", f'ulimit -t {MOST_CPU_SECONDS}; exec "$@"', "sh"]
    with (place / "found").open("w+", encoding="utf-8") as found:
        process = subprocess.Popen([*limits, *command], cwd=place, stdout=found, stderr=found)
        _, process.returncode, usage = wait4(process.pid, 0)
        found.seek(0)
        return judge(check, found.read(), usage.ru_utime)


def judge(check: Check, output: str, seconds: float) -> Result:
    """Read what pan printed."""
    states, depth, fault = _STATES.search(output), _DEPTH.search(output), _FAULT.search(output)
    if states is None or depth is None:
        return Result(check, "", 0, seconds, "", f"pan stopped early: {output[-500:]}")
    error = fault.group(1) if fault and int(depth.group(2)) else ""
    cut = [] if error else [text for text in _INCOMPLETE if text in output]
    count = f"{float(states.group(1)):,.0f}"
    return Result(check, count, int(depth.group(1)), seconds, error, ", ".join(cut))


def describe(result: Result) -> str:
    check = result.check
    verdict = f"refuted by {_shorten(result.error)}" if result.error else "holds"
    verdict = result.trouble or verdict
    mark = "ok  " if result.is_expected else "FAIL"
    bounds = " ".join(each for each in check.defines if not each.startswith("MUTANT"))
    counts = f"{result.states:>11} states {result.depth:>7} deep {result.seconds:5.1f} s"
    return f"{mark} {check.model:<6} {check.about:<36} {bounds:<34} {counts}  {verdict}"


def _shorten(error: str) -> str:
    return error if len(error) <= 70 else f"{error[:67]}..."


def main(words: Sequence[str]) -> int:
    chosen = [
        check
        for check in CHECKS
        if not words or any(word in f"{check.model} {check.about}" for word in words)
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(int(environ.get("JOBS", "2"))) as pool:
        failed = 0
        for result in pool.map(run_check, chosen):
            print(describe(result), flush=True)
            failed += not result.is_expected
    kept = sum(not check.is_refuted for check in chosen)
    print(
        f"{kept} checks and {len(chosen) - kept} mutants in {time.monotonic() - began:.0f} s;"
        f" {failed or 'none'} not as expected"
    )
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
