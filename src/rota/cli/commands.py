"""The commands with the help texts that ``rota --help`` and ``rota COMMAND --help`` print.

A command's module is imported when the command runs, so that help is quick. The first line of each
text is the line in the list of commands. Subcommands have their texts in their docstrings.
"""

from typing import Annotated, Literal

from cyclopts import App, Group, Parameter
from rich.text import Text

from rota import __version__
from rota.cli.output import Terminal, print_verbatim

ROTA = """Run things when they are due, in any time zone and whatever its clocks do.

Start it with something to look at; it says where its pages are:

    rota demo
    rota up

Have it do something, once or again and again:

    rota jobs create hello --kind log.message --payload '{"message": "hi"}'
    rota series create digest --cron "0 9 * * 1-5" --zone Europe/London

See how it goes, what failed, and why:

    rota top
    rota dlq list
    rota why 01890a5d-ac96-774b-bcce-b302099a8057

Ask about schedules; nothing needs to run for that:

    rota cron next "0 9 * * 1-5" --zone Europe/London
    rota cron check /etc/crontab --dialect extended
    rota rrule next "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO" --start 2027-01-04T18:00

Exit status: 0 done, 1 what was checked has problems, 2 bad input,
3 not found, 4 conflict, 5 refused, 6 the store or the server is at fault,
69 a package is missing, 70 a fault in rota itself, 130 interrupted.
"""

STORE = """Stores: how one stands, its schema, and moving to another.

A program that opens a store brings it up to date by itself. Try:

    rota store status
    rota store migrate postgresql://rota@db.example/rota --lock-timeout 60
    rota store copy sqlite:///rota.db postgresql://rota@db.example/rota

The store is sqlite:///rota.db in the working directory, unless an address is
given or the environment variable ROTA_STORE names another.
"""

CRON = """Cron expressions: when they are due, and what they mean.

An expression is five fields: minute, hour, day of month, month, weekday. Try:

    rota cron next "30 1 * * *" --zone Europe/London --from 2027-03-26 -n 5
    rota cron explain "0 9 13 * 5"
    rota cron check crontab.txt

Strict POSIX is the default; --dialect extended adds steps (*/10), names
(mon-fri), macros (@daily, @every 90m) and an optional first field of seconds.
"""

RRULE = """Recurrence rules (RFC 5545): when due, and what they mean.

A rule is written as in a calendar file, and repeats from --start on. Try:

    rota rrule next "FREQ=MONTHLY;BYDAY=-1FR" --start 2027-01-29T17:00 -n 6
    rota rrule explain "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH"
"""

TASKS = """Declarative tasks: how they stand, what would change, why.

Start a scheduler with rota up, or in a program of your own. Try:

    rota tasks list
    rota tasks plan myapp.tasks:registrations
    rota tasks why heartbeat
    rota tasks run-now heartbeat
    rota tasks list --url https://rota.example --token-file ~/.rota-token

Tasks belong to no tenant: of a server, the token of an admin is needed.
"""

TOKENS = """Tokens: who is let in to the service, and for what.

A token is shown once, when it is made; only a hash of it is kept. Try:

    rota tokens create "ada's laptop" --scope read --scope operate
    rota tokens list
    rota tokens revoke 4ace5c094814e1e049c3aa5d

Whoever may open the store may make tokens of any tenant, with --tenant. On a
server (--url), an admin makes tokens of their own tenant.
"""

JOBS = """Jobs: create, list, look at, and act on them.

Ask a store, or a server with --url and a token. Try:

    rota jobs create hello --kind log.message --payload '{"message": "hi"}'
    rota jobs list --status FAILED
    rota jobs show 01890a5d-ac96-774b-bcce-b302099a8057
    rota jobs list --url https://rota.example --token-file ~/.rota-token

ROTA_STORE, ROTA_URL and ROTA_TOKEN in the environment say the same. A token
is never given on the command line, where other users of the host can see it.
"""

BULK = """Many jobs at once: made from a file, or acted on by filters.

Try:

    rota jobs bulk create jobs.json
    rota jobs bulk act cancel --queue mail --status READY --dry-run
"""

SERIES = """Series: jobs that come again and again.

Try:

    rota series create digest --cron "0 9 * * mon-fri" --zone Europe/London
    rota series preview --rrule "FREQ=MONTHLY;BYDAY=-1FR" -n 6
    rota series list
    rota series pause 01890a5d-ac96-774b-bcce-b302099a8057
"""

DEAD_LETTERS = """Dead letters: jobs that were tried as often as they may be.

Try:

    rota dlq list
    rota dlq show 01890a5d-ac96-774b-bcce-b302099a8057
    rota dlq retry --all --kind http.request --why "the server is back"
"""

GATES = """Gates: quiet hours and maintenance, which hold jobs back.

Try:

    rota gates show
    rota gates quiet-hours --start 22:00 --end 07:00 --zone Europe/London
    rota gates maintenance --reason "moving house" --until 2027-03-28T06:00
"""

WHY = """Explain why a job ran, did not run, waits, or will run then.

Dependencies, retries, gates, limits, leases, workers, changes of the
clocks, and what people did: whatever decided it is told. Try:

    rota why 01890a5d-ac96-774b-bcce-b302099a8057
    rota why 01890a5d-ac96-774b-bcce-b302099a8057 --at 2027-03-28T01:30
"""

UP = """Run all of Rota: API, pages, a worker and a scheduler, on one store.

The first start makes the store, prints a token to sign in with, and runs
a first job. Everything is remembered: stop it with ctrl-C, start it again,
and it goes on from where it was. What runs is finished first; a second
ctrl-C does not wait. Try:

    rota up
    rota up --handlers myapp.jobs:handlers --reload
    rota up --tasks examples.declarative_tasks:registrations --board
    rota up --store postgresql://rota@db.example/rota --port 9000
"""

SERVE = """Serve the API and the pages; jobs are run elsewhere.

Everybody needs a token: rota tokens create makes one. Jobs whose workers
are gone are freed, too. The first ctrl-C or SIGTERM lets requests under
way finish; the second one does not wait. Try:

    rota serve
    rota serve --store postgresql://rota@db.example/rota --port 9000
    rota serve --host 0.0.0.0 --json
"""

WORK = """Run jobs with handlers of your own and the built-in ones.

WORKER_POLL_MS, WORKER_BATCH and WORKER_LEASE_MS in the environment tune
it. The first ctrl-C or SIGTERM lets jobs that run finish, for 25 seconds
at most; the second one hands them back. No attempt is spent by that. Try:

    rota work --handlers myapp.jobs:handlers
    rota work --handlers myapp.jobs:handlers --queue mail --concurrency 50
    rota work --handlers myapp.jobs:handlers --reload
"""

DEMO = """Fill a store with a lively example.

Series by cron, RRULE and interval, a graph of jobs that wait for each
other, reminders of two tenants, quiet hours, and a job that fails and
blocks another. It needs no code: rota up runs it. Done again, it adds
nothing that is there already. Try:

    rota demo
    rota up
    rota top
"""

TOP = """Watch queues, workers, what is late, what died, and what comes next.

Ends with ctrl-C. Where the output is no terminal it looks once. Try:

    rota top
    rota top --once
    rota top --url https://rota.example --token-file ~/.rota-token
"""

CHECK = """Check whether anything on a store needs looking at; for monitors.

Looks for dead letters, stalled jobs (their worker is gone and nobody has
rescued them), late jobs (due, and no worker takes them), and records that
cannot be read. Nothing is made or changed.

The exit status is 0 when all is well, 1 when there is something to look
at, and 6 when the store cannot be asked. Try:

    rota check
    rota check --late-after 60 --tenant guild-7
    rota check --store postgresql://rota@db.example/rota --json
"""

app = App(name="rota", version=__version__, help=ROTA, help_format="plaintext")
COMMANDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Run it": (
        ("up", "up:up", UP),
        ("demo", "demo:demo", DEMO),
        ("serve", "serve:serve", SERVE),
        ("work", "work:work", WORK),
    ),
    "Look after it": (
        ("jobs", "jobs:app", JOBS),
        ("series", "series:app", SERIES),
        ("tasks", "tasks:app", TASKS),
        ("dlq", "dead_letters:app", DEAD_LETTERS),
        ("gates", "gates:app", GATES),
        ("top", "top:top", TOP),
        ("why", "why:why", WHY),
        ("check", "check:check", CHECK),
        ("tokens", "tokens:app", TOKENS),
        ("store", "store:app", STORE),
    ),
    "Ask about schedules": (
        ("cron", "cron:app", CRON),
        ("rrule", "rrule:app", RRULE),
    ),
}
"""The commands under their headings, in the order in which they are met; each is loaded when it is
asked for."""

_BESIDES = "Besides"


def _arrange() -> None:
    for heading, commands in COMMANDS.items():
        group = Group.create_ordered(heading)
        for place, (name, path, text) in enumerate(commands):
            app.command(f"rota.cli.{path}", name=name, help=text, group=group, sort_key=place)
    besides = Group.create_ordered(_BESIDES)
    for flag in ("--help", "--version"):
        app[flag].group = (besides,)
    app.command(print_completion, name="completion", group=besides)


def print_completion(
    shell: Literal["bash", "zsh", "fish"],
    *,
    terminal: Annotated[Terminal, Parameter(parse=False)],
) -> None:
    """Print a script that completes rota's commands for a shell.

    Put its output where the shell finds it:

        rota completion bash > ~/.local/share/bash-completion/completions/rota
        rota completion zsh > ~/.zfunc/_rota
        rota completion fish > ~/.config/fish/completions/rota.fish
    """
    print_verbatim(terminal.out, Text(app.generate_completion(shell=shell).rstrip("\n")))


_arrange()
