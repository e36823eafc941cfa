"""Mutates inputs, and keeps those that lead to something new."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
SLOWEST_SECONDS = 1.0
"""More CPU time than this for one input is a finding."""

LONGEST_INPUT = 4_096
_STRANGE = (
    b"\x00", b"\xff", b"-1", b"0", b"99999999999999999999", b"1e999", b"null", b"{}", b"[]",
    b'"', b"\xe2\x80\xae", b"\xf0\x9f\x8c\x8d", b"\\u0000", b"\\ud800", b",", b";", b"=", b"*",
    b"/", b"-", b" ", b"\n", b"NaN", b"True", b"2/0", b"31", b"61", b"L", b"W", b"#6", b"?",
    b"UTC", b"T",
)  # fmt: skip


@dataclass(slots=True)
class Report:
    """What a run brought."""

    target: str
    count: int = 0
    seconds: float = 0.0
    new: list[bytes] = field(default_factory=list)
    outcomes: set[str] = field(default_factory=set)
    findings: list[tuple[bytes, str]] = field(default_factory=list)


def read_corpus(target: str) -> list[bytes]:
    """One input a line, as a Python literal of bytes without its quotes."""
    lines = (CORPUS / f"{target}.txt").read_text(encoding="ascii").splitlines()
    return [line.encode().decode("unicode_escape").encode("latin-1") for line in lines if line]


def keep(target: str, inputs: Sequence[bytes]) -> None:
    """Add inputs to the corpus of a target."""
    with (CORPUS / f"{target}.txt").open("a", encoding="ascii") as file:
        file.writelines(
            each.decode("latin-1").encode("unicode_escape").decode() + "\n" for each in inputs
        )


def mutate(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """The input with a few parts removed, doubled, replaced, inserted or taken from another."""
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randint(0, len(data))
        end = min(len(data), start + random.choice((0, 1, 1, 3, 8)))
        part: bytes
        match random.randrange(6):
            case 0:
                part = b""
            case 1:
                part = data[start:end] * random.choice((2, 2, 40))
            case 2:
                part = bytes([random.randrange(256)])
            case 3:
                part = random.choice(_STRANGE)
            case 4:
                part = str(random.choice((0, 1, 7, 12, 23, 59, 60, 366, 2**31, 2**63))).encode()
            case _:
                other = random.choice(others)
                cut = random.randint(0, len(other))
                part = other[cut : cut + random.randint(0, 20)]
        data = data[:start] + part + data[end:]
    return data[:LONGEST_INPUT]


def fuzz(
    target: str, seed: int, *, most: int | None = None, seconds: float | None = None
) -> Report:
    """Feed a target until its inputs or its seconds of CPU are used up."""
    random, feed, report = Random(f"{target} {seed}"), TARGETS[target], Report(target)
    inputs = read_corpus(target)
    started = time.process_time()
    for data in inputs:
        _try(data, feed, report)
    report.new.clear()
    while not _is_over(report, started, most, seconds):
        data = mutate(random.choice(inputs), inputs, random)
        if _try(data, feed, report):
            inputs.append(data)
    report.seconds = time.process_time() - started
    return report


def _try(data: bytes, feed: Callable[[bytes], str], report: Report) -> bool:
    """Whether this input led to something new, and to nothing wrong."""
    report.count += 1
    began = time.process_time()
    try:
        outcome, finding = feed(data), ""
    except Exception as error:  # noqa: BLE001 - every error that is not a refusal is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__} in {where.name}"
        finding = traceback.format_exc(limit=-2)
    if time.process_time() - began > SLOWEST_SECONDS:
        outcome = finding = "it took too long"
    is_new = outcome not in report.outcomes
    report.outcomes.add(outcome)
    if is_new and finding:
        report.findings.append((data, finding))
    elif is_new:
        report.new.append(data)
    return is_new and not finding


def _is_over(report: Report, started: float, most: int | None, seconds: float | None) -> bool:
    if most is not None and report.count >= most:
        return True
    return seconds is not None and time.process_time() - started >= seconds
