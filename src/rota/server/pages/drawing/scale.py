"""Round numbers for an axis."""

from collections.abc import Sequence
from math import floor, log10

_STEPS = (1, 2, 5, 10)
_TICKS = 4


def choose_ticks(highest: float, *, whole: bool = True) -> list[float]:
    """From zero up to at least ``highest`` in round steps, about four of them."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in _STEPS if power * each >= rough * (1 - 1e-9))
    if whole:
        step = max(step, 1.0)
    count = -int(-(highest / step - 1e-9) // 1)
    return [step * index for index in range(max(count, 1) + 1)]


def tell_number(number: float) -> str:
    """Short enough for an axis: 950, 1.2k, 3M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            return f"{number / size:.1f}".removesuffix(".0") + letter
    return f"{number:.2f}".rstrip("0").rstrip(".")


def thin(positions: Sequence[int], most: int) -> list[int]:
    """Every so many of them, so that at most ``most`` are left; the last one always is."""
    every = max(1, -(-len(positions) // most))
    return [each for each in positions if (positions[-1] - each) % every == 0]
