"""The commands with the help texts that ``rota --help`` and ``rota COMMAND --help`` print.

A command's module is imported when the command runs, so that help is quick. The first line of each
text is the line in the list of commands. Subcommands have their texts in their docstrings.
"""

from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from rota import __version__
from rota.cli.output import Terminal

ROTA = """Run jobs when they are due, in any time zone, across clock changes.

Fill a store with an example, and start; the address of the pages is printed:

    rota demo
    rota up

Create a job, and a recurring one:

    rota jobs create hello --kind log.message --payload '{"message": "hi"}'
    rota series create digest --cron "0 9 * * 1-5" --zone Europe/London

Watch jobs, list what failed, and explain why:

    rota top
    rota dlq list
    rota why 01890a5d-ac96-774b-bcce-b302099a8057

Check schedules; this needs neither a store nor a server:

    rota cron next "0 9 * * 1-5" --zone Europe/London
    rota cron check /etc/crontab --dialect extended
    rota rrule next "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO" --start 2027-01-04T18:00

Exit status: 0 success, 1 a check found problems, 2 invalid input,
3 not found, 4 conflict, 5 refused, 6 store or server unavailable,
7 a check found only jobs that are held back,
69 a package is missing, 70 a fault in rota itself, 130 interrupted.
"""

STORE = """Stores: status, schema, and copying to another store.

Every program that opens a store migrates it. Try:

    rota store status
    rota store migrate postgresql://rota@db.example/rota --lock-timeout 60
    rota store copy sqlite:///rota.db postgresql://rota@db.example/rota

The default is sqlite:///rota.db in the working directory, or the address in
the environment variable ROTA_STORE.
"""

SHARDS = """Shards: several stores that work as one, and moves of tenants.

The address of the store begins with shards: and is an argument, or ROTA_STORE
in the environment. Try:

    rota shards status
    rota shards move acme two
    rota shards add three
    rota shards drain two
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

A rule has the syntax of calendar files and repeats from --start on. Try:

    rota rrule next "FREQ=MONTHLY;BYDAY=-1FR" --start 2027-01-29T17:00 -n 6
    rota rrule explain "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH"
"""

TASKS = """Declarative tasks: state, planned changes, and explanations.

A scheduler runs them: in rota up, or in your own program. Try:

    rota tasks list
    rota tasks plan myapp.tasks:registrations
    rota tasks why heartbeat
    rota tasks run-now heartbeat
    rota tasks list --url https://rota.example --token-file ~/.rota-token

Tasks have no tenant: a server asks for the token of an admin.
"""

TOKENS = """Tokens: who may use the service, and for what.

A token is shown once, when it is created; only its hash is stored. Try:

    rota tokens create "ada's laptop" --scope read --scope operate
    rota tokens list
    rota tokens revoke 4ace5c094814e1e049c3aa5d

With access to the store you create tokens for any tenant (--tenant). On a
server (--url), an admin creates tokens for their own tenant.
"""

JOBS = """Jobs: create, list, show and change them.

On a store, or on a server with --url and a token. Try:

    rota jobs create hello --kind log.message --payload '{"message": "hi"}'
    rota jobs list --state failed
    rota jobs show 01890a5d-ac96-774b-bcce-b302099a8057
    rota jobs list --url https://rota.example --token-file ~/.rota-token

ROTA_STORE, ROTA_URL and ROTA_TOKEN in the environment do the same. There is
no option for the token itself: other users of the host could see it.
"""

BULK = """Many jobs at once: create them from a file, or change them by filter.

Try:

    rota jobs bulk create jobs.json
    rota jobs bulk act cancel --queue mail --state ready --dry-run
"""

SERIES = """Series: recurring jobs.

Try:

    rota series create digest --cron "0 9 * * mon-fri" --zone Europe/London
    rota series preview --rrule "FREQ=MONTHLY;BYDAY=-1FR" -n 6
    rota series list
    rota series pause 01890a5d-ac96-774b-bcce-b302099a8057
"""

DEAD_LETTERS = """Dead letters: jobs without attempts left.

Try:

    rota dlq list
    rota dlq show 01890a5d-ac96-774b-bcce-b302099a8057
    rota dlq retry --all --kind http.request --why "the server is back"
"""

KINDS = """Kinds of jobs: payloads, defaults, and who serves them.

Try:

    rota kinds list
    rota kinds show http.request
"""

QUEUES = """Queues: depth, age, throughput; pause and resume.

Try:

    rota queues list
    rota queues show mail
    rota queues pause mail --why "the mail server is down"
    rota queues resume mail
"""

LIMITS = """Limits: how many jobs run at once, and how many start in a time.

They hold over all workers, for a tenant, a queue, or a queue of a tenant. Try:

    rota limits list
    rota limits set --queue mail --running 5 --why "be gentle"
    rota limits set --queue sms --rate 100/1m --all-tenants
    rota limits clear --queue mail
"""

ERRORS = """Errors: failures in groups; retry or discard a group.

A group is a kind of job, an exception, and the place that raised it. Try:

    rota errors list
    rota errors show 3f2a9c1d5e6b7a80
    rota errors retry 3f2a9c1d5e6b7a80 --why "fixed in 2.3.1"
"""

WORKERS = """Workers: where they run, what they take, and how busy they are.

Lists the workers that have shown a sign of life within the last minute. Try:

    rota workers
    rota workers --json
"""

AUDIT = """Audit log: who did what to which jobs, when and why.

The newest entries come first. Try:

    rota audit
    rota audit --job 01890a5d --limit 100
    rota audit --action pause_queue
"""

TENANTS = """Tenants: who keeps the workers busy, who fails and who waits.

The busiest come first. On a server this needs an admin's token of the default
tenant. Try:

    rota tenants
    rota tenants --hours 24
"""

GATES = """Gates: quiet hours and maintenance, which hold jobs back.

Try:

    rota gates show
    rota gates quiet-hours --start 22:00 --end 07:00 --zone Europe/London
    rota gates maintenance --reason "moving house" --until 2027-03-28T06:00
"""

RETENTION = """Retention: how long jobs and other things are kept.

Processes remove what is older, a few at a time. Try:

    rota retention show
    rota retention set ended=7d,results=1d --dry-run
    rota retention set ended=1d --kind log.message --yes
    rota retention remove --kind log.message
"""

WHY = """Explain why a job ran, did not run, waits, or will run.

The reasons are dependencies, retries, gates, limits, leases, workers,
clock changes and what operators did. Try:

    rota why 01890a5d-ac96-774b-bcce-b302099a8057
    rota why 01890a5d-ac96-774b-bcce-b302099a8057 --at 2027-03-28T01:30
"""

UP = """Run all of Rota: API, pages, a worker and a scheduler, on one store.

The first start creates the store, prints a token to sign in with, and runs
a first job. Ctrl-C stops it once running jobs have finished; a second
ctrl-C does not wait. The next start continues where it stopped. Try:

    rota up
    rota up tasks:app --reload
    rota up --handlers myapp.jobs:handlers
    rota up --tasks myapp.tasks:registrations --board
    rota up --store postgresql://rota@db.example/rota --port 9000
"""

SERVE = """Serve the API and the pages, without a worker.

Every caller needs a token: rota tokens create makes one. It also rescues
jobs whose lease has expired. The first ctrl-C or SIGTERM lets running
requests finish; the second one does not wait. Try:

    rota serve
    rota serve tasks:app
    rota serve --store postgresql://rota@db.example/rota --port 9000
    rota serve --host 0.0.0.0 --json
"""

WORK = """Run the jobs of an app, with your own handlers and the built-in ones.

WORKER_POLL_MS, WORKER_BATCH and WORKER_LEASE_MS in the environment tune
it. The first ctrl-C or SIGTERM lets running jobs finish, for 25 seconds
at most; the second one releases them. That costs no attempt. Try:

    rota work tasks:app
    rota work tasks:app --queue mail --concurrency 50
    rota work tasks:app --reload
    rota work --handlers myapp.jobs:handlers
"""

INIT = """Write a project to start from: tasks, a test, Dockerfile and compose.

Files that exist are not overwritten. Try:

    rota init shop
    cd shop
    rota up tasks:app --reload
"""

DEMO = """Fill a store with an example.

Series by cron, RRULE and interval, a graph of dependent jobs, reminders
of two tenants, quiet hours, and a job that fails and blocks another. It
needs no code: rota up runs it. A second run adds only what is missing. Try:

    rota demo
    rota up
    rota top
"""

TOP = """Watch queues, workers, late jobs, dead letters and the next runs.

Keys: q quits, p pauses, s sorts by another column, r reverses, / filters the
queues by name, j and k or the arrows select one, enter shows its newest jobs,
esc goes back. When the output is not a terminal, it prints once. Try:

    rota top
    rota top --once
    rota top --url https://rota.example --token-file ~/.rota-token
"""

CHECK = """Check a store for problems; for monitoring.

Reports dead letters, stalled jobs (their lease has expired and they were not
rescued), late jobs (due, and no worker takes them), records that cannot be
read, jobs held back by maintenance or by a paused series, tasks that are
late or fail, and series and tasks that have not succeeded in time. Nothing
is created or changed.

The exit status is 0 when all is well, 7 when jobs are held back and nothing
else is wrong, 1 for any other problem, and 6 when the store is unavailable.
Try:

    rota check
    rota check --late-after 60 --tenant guild-7
    rota check --store postgresql://rota@db.example/rota --json
"""

IMPORT = """Import schedules of cron, Celery and APScheduler.

Writes a program with a task for each, and prints every fire of the next two
years that would differ, and why. The file is read, not run. Try:

    rota import crontab /etc/crontab --system --zone Europe/London
    rota import celery proj/celery.py --out -
    rota import apscheduler jobs.py
"""

PLAN = """Say what starting an app would change in its schedules.

Nothing is written. Try:

    rota plan tasks:app
"""

app = App(name="rota", version=__version__, help=ROTA, help_format="plaintext")
COMMANDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Run it": (
        ("up", "up:up", UP),
        ("init", "init:init", INIT),
        ("demo", "demo:demo", DEMO),
        ("serve", "process:serve", SERVE),
        ("work", "process:work", WORK),
    ),
    "Manage it": (
        ("jobs", "jobs:app", JOBS),
        ("series", "series:app", SERIES),
        ("tasks", "tasks:app", TASKS),
        ("dlq", "failures:letters", DEAD_LETTERS),
        ("kinds", "listings:kinds", KINDS),
        ("errors", "failures:groups", ERRORS),
        ("queues", "queues:app", QUEUES),
        ("workers", "listings:workers", WORKERS),
        ("limits", "queues:limits", LIMITS),
        ("gates", "gates:app", GATES),
        ("retention", "retention:app", RETENTION),
        ("top", "top:top", TOP),
        ("why", "why:why", WHY),
        ("check", "check:check", CHECK),
        ("audit", "listings:audit", AUDIT),
        ("tenants", "listings:tenants", TENANTS),
        ("tokens", "tokens:app", TOKENS),
        ("store", "store:app", STORE),
        ("shards", "shards:app", SHARDS),
    ),
    "Ask about schedules": (
        ("cron", "cron:app", CRON),
        ("rrule", "rrule:app", RRULE),
        ("plan", "process:show_plan", PLAN),
        ("import", "imports:app", IMPORT),
    ),
}
"""The commands under their headings, in the order of the list: name, import path and help text."""

_OTHER = "Other"


def _arrange() -> None:
    for heading, commands in COMMANDS.items():
        group = Group.create_ordered(heading)
        for place, (name, path, text) in enumerate(commands):
            app.command(f"rota.cli.{path}", name=name, help=text, group=group, sort_key=place)
    other = Group.create_ordered(_OTHER)
    for flag in ("--help", "--version"):
        app[flag].group = (other,)
    app.command(print_completion, name="completion", group=other)


def print_completion(
    shell: Literal["bash", "zsh", "fish"], *, terminal: Annotated[Terminal, Parameter(parse=False)]
) -> None:
    """Print a script that completes rota's commands for a shell.

    Put its output where the shell finds it:

        rota completion bash > ~/.local/share/bash-completion/completions/rota
        rota completion zsh > ~/.zfunc/_rota
        rota completion fish > ~/.config/fish/completions/rota.fish
    """
    terminal.print_lines(app.generate_completion(shell=shell))


_arrange()
