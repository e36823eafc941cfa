"""The seeds that failed once: the tests replay every one of them."""

from collections.abc import Mapping
from pathlib import Path

KEPT = Path(__file__).with_name("kept_seeds.txt")


def read_seeds() -> dict[int, str]:
    """Each with what was wrong."""
    lines = (line.partition(" ") for line in KEPT.read_text().splitlines() if line[:1].isdigit())
    return {int(seed): reason for seed, _, reason in lines}


def keep_seeds(failed: Mapping[int, str]) -> None:
    """Add these to the file, unless they are there."""
    new = sorted(set(failed) - set(read_seeds()))
    with KEPT.open("a") as file:
        file.writelines(f"{seed} {failed[seed]}\n" for seed in new)
