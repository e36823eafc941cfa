"""``rota init``: writes a project to start from."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from rota.cli.options import value
from rota.cli.output import PLAIN, Output
from rota.errors import InvalidInputError

PROJECT: Mapping[str, str] = {
    "tasks.py": "tasks.py.txt",
    "test_tasks.py": "test_tasks.py.txt",
    "requirements.txt": "requirements.txt",
    "Dockerfile": "Dockerfile",
    "compose.yaml": "compose.yaml",
    ".dockerignore": "dockerignore",
}
"""The files of the project, and those that they are copied from."""


def init(
    directory: Annotated[
        Path, value("DIRECTORY", "Where to write it; created if it does not exist.")
    ] = Path(),
    /,
    *,
    output: Output = PLAIN,
) -> None:
    """Write a project to start from."""
    existing = [name for name in PROJECT if (directory / name).exists()]
    if existing:
        raise InvalidInputError(
            f"{directory / existing[0]} exists already: name another directory, or move it away",
            {"field": "DIRECTORY", "existing": existing},
        )
    if directory.exists() and not directory.is_dir():
        raise InvalidInputError(
            f"{directory} is not a directory: name another one", {"field": "DIRECTORY"}
        )
    directory.mkdir(parents=True, exist_ok=True)
    source = files("rota.cli") / "project"
    for name, template in PROJECT.items():
        (directory / name).write_text((source / template).read_text("utf-8"), "utf-8")
    document = {"directory": str(directory), "files": list(PROJECT)}
    output.print_done(document, *_describe(directory))


def _describe(directory: Path) -> list[str]:
    enter = [] if directory == Path() else [f"    cd {directory}"]
    return [
        f"Written: {', '.join(PROJECT)}.",
        "Run it, and open the pages at the address it prints:",
        *enter,
        "    rota up tasks:app --reload",
        "Test it, or run it in containers on PostgreSQL:",
        "    python -m pytest",
        "    docker compose up --build",
    ]
