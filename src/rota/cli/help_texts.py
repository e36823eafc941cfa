"""What ``--help`` says about rota and its groups of commands, kept apart from them.

So the list of commands is shown without loading any. The first line of each text stands in that
list. A command that stands alone says its own in its docstring.
"""

ROTA = """Run things when they are due, in any time zone and whatever its clocks do.

Try:

    rota up
    rota demo
    rota top
    rota jobs create hello --kind log.message --payload '{"message": "hi"}'
    rota why 01890a5d-ac96-774b-bcce-b302099a8057
    rota check
    rota cron next "0 9 * * 1-5" --zone Europe/London
    rota cron explain "*/10 8-18 * * mon-fri" --dialect extended
    rota cron check /etc/crontab --dialect extended
    rota rrule next "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO" --start 2027-01-04T18:00

Exit status: 0 done, 1 what was checked has problems, 2 bad input,
3 not found, 4 conflict, 5 refused, 6 the store or the server is at fault,
69 a package is missing, 70 a fault in rota itself, 130 interrupted.
"""

STORE = """Stores: how one stands, and bringing its schema up to date.

A program that opens a store brings it up to date by itself. Try:

    rota store status
    rota store migrate postgresql://rota@db.example/rota --lock-timeout 60

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

RRULE = """Recurrence rules of RFC 5545: when they are due, what they mean.

A rule is written as in a calendar file, and repeats from --start on. Try:

    rota rrule next "FREQ=MONTHLY;BYDAY=-1FR" --start 2027-01-29T17:00 -n 6
    rota rrule explain "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH"
"""

TASKS = """Declarative tasks: what is on a store, what would change, and why.

Start a scheduler with rota up, or in a program of your own. Try:

    rota tasks list
    rota tasks plan myapp.tasks:registrations
    rota tasks why heartbeat
    rota tasks run-now heartbeat

The store is sqlite:///rota.db in the working directory, unless --store or
the environment variable ROTA_STORE names another.
"""

TOKENS = """Tokens: who is let in to the service, for which tenant, and for what.

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
