"""Which test reaches which line of a package."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


class Reaches:
    """The tests of a run, and the lines that they reach.

    A line that runs while its module is loaded has the test ``""``: every test may depend on it.
    """

    def __init__(
        self, seconds: Mapping[str, float], lines: Mapping[str, Mapping[int, Sequence[str]]]
    ) -> None:
        self._seconds = seconds
        self._lines = lines

    def find_tests(self, file: str, first: int, last: int) -> set[str] | None:
        """The tests that reach one of these lines; None stands for all of them."""
        lines = self._lines.get(file, {})
        found = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        return None if "" in found else found

    def find_seconds(self, test: str) -> float:
        """How long the test took."""
        return self._seconds.get(test, 0.0)

    def write(self, file: Path) -> None:
        file.write_text(json.dumps([self._seconds, self._lines]))

    @classmethod
    def read(cls, file: Path) -> "Reaches":
        seconds, lines = json.loads(file.read_text())
        return cls(
            seconds,
            {
                name: {int(line): tests for line, tests in reached.items()}
                for name, reached in lines.items()
            },
        )
