"""The command; see the package. Exit status 1 if there is a finding."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from tests.fuzz.fuzzer import fuzz, keep
from tests.fuzz.targets import TARGETS


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=60, help="of CPU time, for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="add new inputs to the corpus")
    given = parser.parse_args(arguments)
    finding_count = 0
    for target in TARGETS if given.target == "all" else [given.target]:
        report = fuzz(target, given.seed, seconds=given.seconds)
        sys.stdout.write(
            f"{target}: {report.count} inputs in {report.seconds:.0f} s of CPU, "
            f"{len(report.outcomes)} outcomes, {len(report.findings)} findings\n"
        )
        for data, told in report.findings[:5]:
            sys.stdout.write(f"  {data!r}\n{told}\n")
        sys.stdout.flush()
        finding_count += len(report.findings)
        if given.keep:
            keep(target, report.new)
    return 1 if finding_count else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
