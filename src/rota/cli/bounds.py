"""Bounds of numbers on the command line; cyclopts has some, but they are slow to load."""

from collections.abc import Callable

Check = Callable[[object, float | None], None]
"""A validator for cyclopts."""


def bounds(
    *, least: float | None = None, above: float | None = None, most: float | None = None
) -> Check:
    """A validator of numbers from ``least`` or just above ``above`` to ``most``."""

    def check(_kind: object, given: float | None) -> None:
        if given is None:
            return
        if most is not None and not given <= most:
            raise ValueError(f"Must be <= {most}.")
        if above is not None and not given > above:
            raise ValueError(f"Must be > {above}.")
        if least is not None and not given >= least:
            raise ValueError(f"Must be >= {least}.")

    return check
