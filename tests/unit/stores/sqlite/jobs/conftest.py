"""Hands to reach into the jobs of a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest


@pytest.fixture
def reach_in(path: Path) -> Callable[..., list[Any]]:
    """Run a statement on the file, past the store."""

    def run(statement: str, *values: Any) -> list[Any]:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(5_000)
        try:
            return list(connection.execute(statement, values))
        finally:
            connection.close()

    return run
