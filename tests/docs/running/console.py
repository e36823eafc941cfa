"""Console blocks: commands after ``$``, and what they print."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.environment import ROOT, check_output
from tests.docs.running.services import Services

from rota.cli.main import run

ASK_STATUS = "echo $?"
RUN_ON = {"up", "serve", "work"}
"""Commands that end when they are told to."""

_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def run_console(text: str, folder: Path, services: Services, where: str) -> None:
    """Run the commands of one block in ``folder``; compare what they print where it is shown."""
    status = 0
    commands = list(_commands(text))
    for number, (command, shown) in enumerate(commands):
        if command == ASK_STATUS:
            check_output(shown, f"{status}\n", where)
            status = 0
            continue
        if status:
            raise AssertionError(f"{where}: exit status {status} is not shown, before $ {command}")
        if _runs_on(command, commands[number + 1 :]):
            services.start(shlex.split(command)[1:], shown, where)
        else:
            status = _run(command, shown, folder, services, where)
    if status:
        raise AssertionError(f"{where}: the last command ends with status {status}, not shown")


def _runs_on(command: str, following: list[tuple[str, str]]) -> bool:
    """Whether it ends only when told to; where the exit status is shown next, it ends at once."""
    program, *arguments = shlex.split(command)
    is_asked = bool(following) and following[0][0] == ASK_STATUS
    return program == "rota" and arguments[0] in RUN_ON and not is_asked


def make_targets() -> set[str]:
    return set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))


def _commands(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError(f"a console block begins with a command, not with {parts[0]!r}")
    for part in parts[1:]:
        command, _, shown = part.partition("\n")
        yield " ".join(command.split()) if command.startswith("echo") else command.strip(), shown


def _run(command: str, shown: str, folder: Path, services: Services, where: str) -> int:
    program, *arguments = shlex.split(services.put_in_address(command))
    if program == "rota":
        return _run_rota(arguments, shown, services, where)
    if program == "python" and arguments[0].startswith("examples/"):
        return _start([sys.executable, str(ROOT / arguments[0])], shown, folder, where)
    if program == "make":
        _check_targets(arguments, where)
    elif program != "pip":
        raise ValueError(f"{where}: {program} is not a command that can be checked")
    return 0


def _run_rota(arguments: list[str], shown: str, services: Services, where: str) -> int:
    """In this process: a page has many commands, and real processes are tested elsewhere."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = run(arguments)
    services.note_token(printed.getvalue())
    if shown.strip():
        check_output(shown, services.leave_out_address(printed.getvalue()), where)
    return status


def _start(words: list[str], shown: str, folder: Path, where: str) -> int:
    done = subprocess.run(
        words,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
    )
    if shown.strip():
        check_output(shown, done.stdout, where)
    return done.returncode


def _check_targets(arguments: list[str], where: str) -> None:
    unknown = {word for word in arguments if "=" not in word} - make_targets()
    if unknown:
        raise AssertionError(f"{where}: make has no target {', '.join(sorted(unknown))}")
