"""Every example is run, and prints what its docstring says."""

import ast
import contextlib
import io
import os
import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.environment import ROOT, check_output, pinned_environment
from tests.servers.shared import new_database, new_mongo_database, shared_mongo_url, shared_url

SERVICES = {"fastapi_service.py", "flask_service.py", "observed.py"}
"""Apps of a server or worker; ``tests/integrations`` starts them."""
EXAMPLES = sorted(it for it in (ROOT / "examples").glob("*.py") if it.name not in SERVICES)
INTRODUCTION = "It prints:\n"


def promised_output(path: Path) -> str:
    """The indented text after "It prints:" in the docstring of an example."""
    promise = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    _, found, shown = promise.partition(INTRODUCTION)
    if not found or not shown.strip():
        raise ValueError(f"{path.name} does not say what it prints")
    return textwrap.dedent(shown)


@contextlib.contextmanager
def wanted_servers(path: Path) -> Iterator[None]:
    """An empty database on a real server, for each variable that the example reads."""
    text = path.read_text(encoding="utf-8")
    with contextlib.ExitStack() as stack:
        if '"DATABASE_URL"' in text:
            os.environ["DATABASE_URL"] = stack.enter_context(new_database(shared_url()))
        if '"MONGO_URL"' in text:
            url = stack.enter_context(new_mongo_database(shared_mongo_url()))
            os.environ["MONGO_URL"] = url
        yield


def run_example(path: Path, folder: Path) -> str:
    printed = io.StringIO()
    with (
        pinned_environment(folder),
        wanted_servers(path),
        contextlib.redirect_stdout(printed),
    ):
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(path: Path, tmp_path: Path) -> None:
    check_output(promised_output(path), run_example(path, tmp_path), path.name)


def test_there_are_examples_of_pollers() -> None:
    """The two of specification 4, and one for SQL."""
    assert {"basic", "mongodb", "sql_table"} <= {path.stem for path in EXAMPLES}


def test_an_example_that_promises_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "silent.py"
    path.write_text('"""Says nothing."""\n', encoding="utf-8")
    with pytest.raises(ValueError, match="does not say what it prints"):
        promised_output(path)
