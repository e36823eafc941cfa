"""The very statements by which Rota's store leases and completes, driven by pgbench.

pgbench keeps what it reads in variables, of which a statement can set only one row. So the rows of
the lease are gathered into arrays, which the completion takes back as parameters; otherwise the
text is that of the store's own file.
"""

import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.queue_contest.contestants import BATCH, Measure
from bench.queue_contest.harness.places import Ground, PostgresPlace
from bench.queue_contest.harness.programs import PATIENCE, ContestantError, Entry
from bench.queue_contest.measures import Figures, Sizes

from rota.stores.postgres.address import read_address
from rota.stores.postgres.dialling import session_settings
from rota.stores.postgres.queries import QUERIES

_LAST_SELECT = re.compile(r"\n\)\nSELECT\n(?!.*\n\)\nSELECT\n)", re.DOTALL)
_PARAMETER = re.compile(r"\$(\d+)(::\w+(?:\[\])?)?")
_GATHERED = """
)
SELECT
    string_agg(id, ',') AS ids, array_agg(last_token) AS tokens, array_agg(tenant) AS tenants,
    array_agg(due_at) AS dues, count(body) AS read_count
FROM claimed WHERE id IS NOT NULL \\gset
"""
_LEASE_VALUES = (":now", "''", "'~'", ":batch", ":until", "'bench'", "'{noop}'", "'{}'", "true")
"""Now, the first and the last queue, how many, until when, for whom, kinds and labels, whether to
look for jobs to mark as due."""

_NOW = "array[:now]"
_COMPLETE_VALUES = (":ids", ":tokens", ":tenants", ":dues", _NOW, _NOW, "'{}'", "'rota'")
"""Ids, tokens, tenants, when they were due, started and ended, no results, the channel."""


def measure(
    entry: Entry, place: PostgresPlace, ground: Ground, measure: Measure, sizes: Sizes
) -> Figures:
    """Jobs a second, by one or two clients, of jobs that Rota laid in."""
    program = ground.program("pgbench")
    if program is None:
        raise ContestantError("this PostgreSQL comes without pgbench")
    entry.tell("prepare")
    entry.tell("bulk", sizes.drain_count)
    place.settle()
    script = ground.folder / "pgbench.sql"
    script.write_text(make_script())
    clients = 2 if measure is Measure.DRAIN_TWO else 1
    seconds = _run(program, script, place, clients, -(-sizes.drain_count // BATCH // clients))
    done = place.ask("SELECT count(*) FROM rota.jobs WHERE status = 'COMPLETED'")
    return {"rate": int(done) / seconds}


def make_script() -> str:
    """One lease and one completion, each a transaction of its own."""
    gathering, found = _LAST_SELECT.subn(
        "\n), claimed (id) AS (\nSELECT\n", QUERIES.lease.rstrip("; \n")
    )
    if found != 1:
        raise ContestantError("the lease statement does not end in a SELECT of its own")
    lease = _fill(gathering, _LEASE_VALUES) + _GATHERED
    return lease + _fill(QUERIES.complete_jobs.rstrip("; \n"), _COMPLETE_VALUES) + ";\n"


def _fill(statement: str, values: tuple[str, ...]) -> str:
    """Put values in place of parameters, each with the type that the statement gives it once."""
    found = [(int(match[1]), match[2] or "") for match in _PARAMETER.finditer(statement)]
    types = dict(sorted(found, key=lambda each: bool(each[1])))
    if set(types) != set(range(1, len(values) + 1)):
        raise ContestantError(f"a statement has {len(types)} parameters, not {len(values)}")
    return _PARAMETER.sub(lambda one: values[int(one[1]) - 1] + types[int(one[1])], statement)


def _run(program: Path, script: Path, place: PostgresPlace, clients: int, count: int) -> float:
    """Seconds for so many transactions of each client, without connecting."""
    now = datetime.now(UTC)
    values = {"now": now, "until": now + timedelta(minutes=1), "batch": BATCH}
    command = [str(program), "--no-vacuum", "--protocol=prepared", f"--file={script}"]
    command += [f"--client={clients}", f"--jobs={clients}", f"--transactions={count}"]
    command += [f"--define={name}={value}" for name, value in values.items()]
    done = subprocess.run(
        [*command, place.settings["url"]],
        env={**os.environ, "PGOPTIONS": _options(place.settings["url"])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    rate = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or rate is None:
        raise ContestantError(f"pgbench: {done.stderr[-1500:]}")
    return clients * count / float(rate[1])


def _options(url: str) -> str:
    """The settings of the store's own sessions: they decide about plans."""
    settings = session_settings(read_address(url)).items()
    return " ".join("-c " + f"{name}={value}".replace(" ", r"\ ") for name, value in settings)
