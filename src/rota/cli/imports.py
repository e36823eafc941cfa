"""``rota import``: schedules of cron, Celery and APScheduler become tasks of an app."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from rota.cli.arguments import STANDARD, choose_zone, open_input
from rota.cli.import_apscheduler import read_apscheduler
from rota.cli.import_celery import read_celery
from rota.cli.import_crontab import read_crontab
from rota.cli.import_report import check_rules, list_lines, write_program
from rota.cli.import_rule import Imported
from rota.cli.options import ZoneOption, flag
from rota.cli.output import GivenTerminal, Terminal, count_of
from rota.errors import InvalidInputError, invalid
from rota.escape import escape

app = App(name="import")

_FileArgument = Annotated[
    str, Parameter(metavar="FILE", allow_leading_hyphen=True, help="The file, or - for input.")
]
_OutOption = Annotated[
    str,
    Parameter(
        metavar="FILE", allow_leading_hyphen=True, help="Where to write the program; - prints it."
    ),
]


@app.command(name="crontab")
def import_crontab(
    file: _FileArgument,
    /,
    *,
    out: _OutOption = "tasks.py",
    zone: ZoneOption = None,
    system: Annotated[bool, flag("A user follows the five fields, as in /etc/crontab.")] = False,
    terminal: GivenTerminal,
) -> None:
    """Import a crontab, as cron runs it in --zone.

    Prints every fire of the next two years that would differ, and why. Try:

        rota import crontab /etc/crontab --system --zone Europe/London
    """
    imported = read_crontab(_read(file), choose_zone(zone).zone, has_users=system)
    _finish(terminal, imported, file, out)


@app.command(name="celery")
def import_celery(
    file: _FileArgument,
    /,
    *,
    out: _OutOption = "tasks.py",
    zone: ZoneOption = None,
    terminal: GivenTerminal,
) -> None:
    """Import a beat schedule from Python source, which is not run, or from JSON.

    The zone is the one that the file names, or UTC. Try:

        rota import celery proj/celery.py --out -
    """
    chosen = None if zone is None else choose_zone(zone).zone
    _finish(terminal, read_celery(_read(file), chosen), file, out)


@app.command(name="apscheduler")
def import_apscheduler(
    file: _FileArgument,
    /,
    *,
    out: _OutOption = "tasks.py",
    zone: ZoneOption = None,
    terminal: GivenTerminal,
) -> None:
    """Import the add_job calls of an APScheduler 3 program, which is not run.

    The zone is the one that the scheduler names, or --zone. Try:

        rota import apscheduler jobs.py --zone Europe/Berlin
    """
    program = Path(file).stem if file != STANDARD else "your_program"
    imported = read_apscheduler(_read(file), choose_zone(zone).zone, program)
    _finish(terminal, imported, file, out)


def _read(file: str) -> str:
    with open_input(file) as source:
        try:
            return source.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise invalid("FILE", "is not UTF-8") from error


def _finish(terminal: Terminal, imported: Imported, file: str, out: str) -> None:
    imported = check_rules(imported)
    program = write_program(imported, Path(file).name)
    if out == STANDARD:
        terminal.print_lines(program)
    else:
        _write(Path(out), program)
    for line in list_lines(imported, terminal.clock.now()):
        terminal.print_lines(line)
    said = count_of(len(imported.schedules), "schedule")
    where = "" if out == STANDARD else f" in {out}"
    terminal.print_text(f"{said}{escape(where)}, {len(imported.unreadable)} left out", "bold")


def _write(path: Path, program: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(program)
    except FileExistsError as error:
        reason = f"{path} exists; choose another file with --out"
        raise InvalidInputError(reason, {"field": "--out"}) from error
    except OSError as error:
        raise invalid("--out", f"cannot be written: {error}") from error
