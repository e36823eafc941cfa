"""``rota jobs``: create, list, show, change and act."""

import asyncio
import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.unit.cli.conftest import NOW, Outcome, RunRota

from rota import Rota, Worker, open_store
from rota.clock.system import SystemClock
from rota.testing import VirtualClock
from rota.worker import Context

Create = Callable[..., str]
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_a_job_is_created_and_shown(rota: RunRota) -> None:
    outcome = rota("jobs", "create", "hello", "--payload", '{"n": 1}', "--in", "90s")
    assert outcome.status == 0
    job_id = outcome.out.split()[1].rstrip(":")
    assert outcome.out == f"Created {job_id}: scheduled, run at Fri 2027-03-26 12:02:00 GMT.\n"
    shown = rota("jobs", "show", job_id)
    lines = shown.out.splitlines()
    assert lines[0] == f"Job      {job_id}"
    assert "Name     hello" in lines
    assert "Run at   Fri 2027-03-26 12:02:00 GMT (in 1m 30s)" in lines
    assert 'Payload  {"n": 1}' in lines
    assert "Tries    0 of 3 failed" in lines


async def declare_report() -> None:
    """An app is served on the default store, and then gone."""
    app = Rota("sqlite:///rota.db")

    @app.task(name="report.send")
    async def send(day: str, pages: int = 1, queue: str = "") -> None:
        """Print."""

    async with await open_store("sqlite:///rota.db") as store, app.serving(store, SystemClock()):
        pass


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("{}", "payload.day is missing"),
        ('{"day": "mon", "page": 2}', "payload.page is not known; known are: day, pages, queue"),
        ('{"day": "mon", "queue": 1}', "payload.queue must be a text, got 1"),
        ('{"day": "mon", "pages": "two"}', "payload.pages must be an integer, got 'two'"),
    ],
)
def test_a_payload_is_checked_by_what_an_app_has_stored_about_its_kind(
    rota: RunRota, payload: str, message: str
) -> None:
    asyncio.run(declare_report())
    refused = rota("jobs", "create", "report.send", "--payload", payload)
    assert (refused.status, refused.err) == (2, f"error: {message}\n")
    assert rota("jobs", "list", "--json").document["items"] == []
    assert rota("jobs", "create", "report.send", "--payload", '{"day": "mon"}').status == 0
    assert "Payload is checked        yes" in rota("kinds", "show", "report.send").out


@pytest.mark.parametrize(
    ("kind", "payload", "fault"),
    [
        ("log.message", '{"msg": "hi"}', "payload.msg is not known here; did you mean message?"),
        ("log.message", "[]", "payload must be an object, got"),
        ("http.request", '{"url": "x", "method": "post"}', "payload.method must be one of DELETE"),
    ],
)
def test_what_a_built_in_kind_would_discard_is_said_at_once(
    rota: RunRota, kind: str, payload: str, fault: str
) -> None:
    outcome = rota("jobs", "create", "a", "--kind", kind, "--payload", payload)
    assert outcome.status == 0  # another handler of that name may take it
    assert f"The built-in kind {kind} will discard this job: {fault}" in outcome.err


def test_nothing_is_said_about_a_payload_that_fits(rota: RunRota) -> None:
    asked = ("--kind", "log.message", "--payload", '{"message": "hi"}')
    assert "discard" not in rota("jobs", "create", "a", *asked).err


def test_an_ended_job_is_shown_with_its_removal(rota: RunRota, created: Create) -> None:
    job_id = created("hello")
    assert "Removed" not in rota("jobs", "show", job_id).out
    assert rota("jobs", "cancel", job_id).status == 0
    shown = rota("jobs", "show", job_id, width=200).out.splitlines()
    line = next(it for it in shown if it.startswith("Removed"))
    assert line.split(maxsplit=1)[1] == (
        "Sun 2027-04-25 13:00:30 BST (in 30d), once no job depends on it"
    )
    assert rota("retention", "set", "ended=forever,dead=forever", "--yes").status == 0
    shown = rota("jobs", "show", job_id, width=200).out.splitlines()
    line = next(it for it in shown if it.startswith("Removed"))
    assert line.split(maxsplit=1)[1] == "never, by the rules of retention"
    assert rota("jobs", "show", job_id, "--json").document["removed_at"] is None


def test_a_job_that_is_there_already_is_said_to_be(rota: RunRota) -> None:
    first = rota("jobs", "create", "hello", "--key", "only one")
    again = rota("jobs", "create", "hello", "--key", "only one")

    assert first.out.startswith("Created ")
    assert again.out.startswith("There already is ")
    assert again.out.split()[3] == first.out.split()[1]


def test_a_kind_that_no_worker_serves_is_warned_about_beside_the_result(rota: RunRota) -> None:
    outcome = rota("jobs", "create", "hello", "--kind", "rare")
    assert outcome.out.startswith("Created ")
    warning = "No running worker serves kind 'rare': the job waits until one does."
    assert outcome.err.split() == warning.split()
    for_programs = rota("jobs", "create", "hello", "--kind", "rare", "--json")
    assert "warning" not in for_programs.document
    assert for_programs.err.split() == warning.split()


def test_a_served_kind_is_created_without_a_warning(rota: RunRota) -> None:
    async def serve() -> None:
        async with await open_store("sqlite:///rota.db") as store:
            clock = VirtualClock(NOW)
            worker = Worker(store, {"common": _report}, clock=clock)
            running = asyncio.create_task(worker.run())
            await clock.advance(timedelta(seconds=1))
            outcome = await asyncio.to_thread(rota, "jobs", "create", "hello", "--kind", "common")
            assert (outcome.status, outcome.err) == (0, "")
            worker.stop()
            await clock.run(running)

    asyncio.run(serve())


async def _report(context: Context) -> None:
    context.progress(1, 4, "first box")


def test_a_running_job_shows_its_progress_and_an_ended_one_does_not(
    rota: RunRota, created: Create
) -> None:
    job_id = created("pack", "--kind", "pack")
    shown: list[Outcome] = []

    async def run() -> None:
        clock = VirtualClock(NOW)

        async def pack(context: Context) -> None:
            context.progress(1, 4, "first box")
            await clock.sleep(timedelta(seconds=2))
            shown.append(await asyncio.to_thread(rota, "jobs", "show", job_id))
            shown.append(await asyncio.to_thread(rota, "jobs", "show", job_id, "--json"))

        async with await open_store("sqlite:///rota.db") as store:
            worker = Worker(store, {"pack": pack}, clock=clock)
            running = asyncio.create_task(worker.run_once())
            await clock.advance(timedelta(seconds=3))
            await running

    asyncio.run(run())
    (line,) = (it for it in shown[0].out.splitlines() if it.startswith("Progress"))
    assert line.split(maxsplit=1)[1].startswith("1 of 4 (25%), first box, ")
    progress = shown[1].document["progress"]
    assert (progress["done"], progress["total"], progress["message"]) == (1, 4, "first box")
    assert "Progress" not in rota("jobs", "show", job_id).out
    assert rota("jobs", "show", job_id, "--json").document["progress"] is None


def test_a_job_for_programs_is_what_the_service_says(rota: RunRota, created: Create) -> None:
    job_id = created("report", "--queue", "mail", "--priority", "9", "--max-attempts", "7")
    document = rota("jobs", "show", job_id, "--json").document
    assert (document["queue"], document["priority"]) == ("mail", 9)
    assert document["retry_policy"]["max_attempts"] == 7
    assert document["run_at"] == "2027-03-26T12:00:30Z"
    assert document["attempts"] == []


def test_jobs_are_listed_the_newest_first_and_by_filters(rota: RunRota, created: Create) -> None:
    created("one", "--queue", "mail", "--kind", "send")
    created("two", "--queue", "images")
    listed = rota("jobs", "list")
    assert listed.out.splitlines()[-1] == "2 jobs"
    assert rota("jobs", "list", "--queue", "mail").out.splitlines()[-1] == "1 job"
    for filters in (("--kind", "send"), ("--match", "ON"), ("--queue", "mail")):
        items = rota("jobs", "list", *filters, "--json").document["items"]
        assert [item["name"] for item in items] == ["one"]
    assert rota("jobs", "list", "--state", "failed").out == "0 jobs\n"


def test_a_long_list_is_cut_and_goes_on_at_its_cursor(rota: RunRota, created: Create) -> None:
    for number in range(5):
        created(f"job {number}")
    first = rota("jobs", "list", "--limit", "3", "--json").document
    assert first["has_more"]
    rest = rota("jobs", "list", "--cursor", first["next_cursor"], "--json").document
    names = [item["name"] for item in (*first["items"], *rest["items"])]
    assert sorted(names) == [f"job {number}" for number in range(5)]
    assert rota("jobs", "list", "--limit", "3").out.endswith(
        "3 jobs; there are more, see --limit\n"
    )


def test_on_a_narrow_terminal_a_row_fits(rota: RunRota, created: Create) -> None:
    created("a job whose name is rather long, and goes on for longer than a line is wide")
    lines = rota("jobs", "list", width=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["Id", "State", "Run", "Name"]


def test_a_name_reaches_no_terminal_as_it_is(rota: RunRota, created: Create) -> None:
    job_id = created("bell", "--payload", '{"text": "\\u001b[2J\\u202e"}')
    for argv in (("jobs", "list"), ("jobs", "show", job_id)):
        for flags in ((), ("--json",)):
            assert rota(*argv, *flags).out.replace("\n", "").isprintable()


def test_a_job_waits_for_another(rota: RunRota, created: Create) -> None:
    first = created("first")
    second = created("second", "--after", first)
    document = rota("jobs", "show", second, "--json").document
    assert (document["status"], document["dependencies"]) == ("PENDING", [first])
    refused = rota("jobs", "delete", first)
    assert refused.status == 4
    assert rota("jobs", "delete", second).out == f"Deleted {second}.\n"
    assert rota("jobs", "show", second).status == 3


def test_with_a_key_there_is_only_one(rota: RunRota, created: Create) -> None:
    assert created("one", "--key", "k") == created("one", "--key", "k")
    refused = rota("jobs", "create", "one", "--key", "k", "--payload", "[1]")
    assert refused.status == 4


def test_a_job_is_changed(rota: RunRota, created: Create) -> None:
    job_id = created("draft")
    outcome = rota("jobs", "update", job_id, "--priority", "10", "--run-at", "2027-03-28T09:00")
    assert outcome.out == f"Changed {job_id}.\n"
    document = rota("jobs", "show", job_id, "--json").document
    assert (document["priority"], document["run_at"]) == (10, "2027-03-28T08:00:00Z")
    assert document["name"] == "draft"


def test_a_job_is_run_now_and_cancelled(rota: RunRota, created: Create) -> None:
    job_id = created("later", "--in", "5h")
    assert rota("jobs", "run-now", job_id).out == f"Due now: {job_id}.\n"
    assert rota("jobs", "show", job_id, "--json").document["run_at"] == "2027-03-26T12:00:30Z"
    assert rota("jobs", "cancel", job_id, "--why", "no need").status == 0
    document = rota("jobs", "show", job_id, "--json").document
    assert (document["status"], document["ending"]) == ("FAILED", "cancelled")
    again = rota("jobs", "cancel", job_id)
    assert (again.status, "which is final" in again.err) == (4, True)


def test_a_job_that_failed_is_tried_again_by_another(
    rota: RunRota, created: Create, fail_all: Callable[[], None]
) -> None:
    job_id = created("print", "--max-attempts", "1")
    fail_all()
    shown = rota("jobs", "show", job_id)
    assert "out of paper" in shown.out.splitlines()[-1]
    document = rota("jobs", "retry", job_id, "--json").document
    assert document["replacements"][job_id] == document["job"]["id"]
    new_id = document["job"]["id"]
    assert rota("jobs", "show", new_id, "--json").document["replaces"] == job_id
    again = rota("jobs", "retry", job_id)
    assert again.out == f"{job_id} had been retried already, by {new_id}.\n"
    changed = rota("jobs", "retry", job_id, "--payload", "{}")
    assert "has been retried already" in changed.err
    copied = rota("jobs", "duplicate", job_id, "--payload", '{"order": 7}', "--queue", "slow")
    copy_id = copied.out.split()[1].rstrip(",")
    assert copied.out == f"Created {copy_id}, a duplicate of {job_id}.\n"
    copy = rota("jobs", "show", copy_id, "--json").document
    assert (copy["payload"], copy["queue"], copy["replaces"]) == ({"order": 7}, "slow", None)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("jobs", "show", "123"), "ID"),
        (("jobs", "create", "a", "--after", "123"), "--after"),
        (("series", "show", "123"), "ID"),
        (("dlq", "retry", "123"), "ID"),
        (("why", "123"), "ID"),
    ],
)
def test_an_invalid_id_is_refused_and_the_error_says_where_ids_are_listed(
    rota: RunRota, words: tuple[str, ...], option: str
) -> None:
    outcome = rota(*words)
    assert outcome.status == 2
    assert f'{option} "123" is not a job id, such as' in outcome.err
    assert "rota jobs list shows them" in outcome.err


def test_why_says_what_decides(rota: RunRota, created: Create) -> None:
    job_id = created("later", "--in", "1h")
    found = rota("why", job_id)
    assert found.out.splitlines()[0] == ("It will run at Fri 2027-03-26 13:00:30 UTC, in 1 hour.")
    assert all(line.startswith("- ") for line in found.out.splitlines()[1:])
    assert rota("why", job_id, "--json").document["answer"] == "will run"


def test_why_is_asked_about_an_instant(rota: RunRota, created: Create) -> None:
    job_id = created("later", "--in", "1h")
    found = rota("why", job_id, "--at", "2027-03-26T12:30:00Z")
    assert found.out.splitlines()[0] == (
        "It will not run at Fri 2027-03-26 12:30:00 UTC: it will begin later."
    )
    assert rota("why", job_id, "--at", "2027-03-26T13:00:30", "--json").document["at"] == (
        "2027-03-26T13:00:30Z"
    )
    refused = rota("why", job_id, "--at", "tomorrow")
    assert (refused.status, "--at" in refused.err) == (2, True)


def test_a_job_may_start_in_days(rota: RunRota, created: Create) -> None:
    job_id = created("later", "--in", "2d")
    assert rota("jobs", "show", job_id, "--json").document["run_at"] == "2027-03-28T12:00:30Z"


def test_a_file_of_jobs_that_does_not_exist_is_named(rota: RunRota) -> None:
    outcome = rota("jobs", "bulk", "create", "nowhere.json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == 'error: Cannot read "nowhere.json": No such file or directory\n'


def test_an_update_without_a_change_is_refused(rota: RunRota, created: Create) -> None:
    job_id = created("job")
    outcome = rota("jobs", "update", job_id, "--json")
    assert outcome.status == 2
    assert outcome.error["message"].startswith("nothing changes: give --priority")


def test_an_invalid_store_is_the_same_error_for_every_queue(rota: RunRota) -> None:
    plain, other = (
        rota("jobs", "create", "job", "--queue", queue, "--store", "nope://x", "--json").error
        for queue in ("mail", "Mail.X")
    )
    assert plain["type"] == "InvalidStoreUrlError"
    assert other == plain


@pytest.mark.parametrize("verb", ["update", "retry", "duplicate"])
def test_an_unknown_zone_is_refused_though_no_time_is_read_in_it(
    rota: RunRota, created: Create, verb: str
) -> None:
    job_id = created("job")
    outcome = rota("jobs", verb, job_id, "--priority", "3", "--zone", "Mars/Base")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        'error: Unknown time zone "Mars/Base"\n--zone takes an IANA name, such as Europe/London\n'
    )
    assert len(rota("jobs", "list", "--json").document["items"]) == 1


@pytest.mark.parametrize("verb", ["show", "delete", "cancel", "retry", "duplicate", "run-now"])
def test_a_job_that_is_not_there_is_not_found(rota: RunRota, verb: str) -> None:
    rota("store", "migrate")
    outcome = rota("jobs", verb, UNKNOWN)
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err == f"error: There is no job {UNKNOWN}\n"
    assert rota("jobs", verb, UNKNOWN, "--json").error["group"] == "not_found"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("--payload", "{"), "--payload is not JSON"),
        (("--payload", "@nowhere.json"), 'Cannot read "nowhere.json": No such file'),
        (("--in", "soon"), '--in "soon" is not a length of time'),
        (("--in", "0s"), "longer than zero and at most 100 years"),
        (("--in", "99999999d"), "longer than zero and at most 100 years"),
        (("--in", "1m", "--run-at", "2027-03-28"), "--run-at and --in are both given"),
        (("--run-at", "2027-03-28T01:30"), "does not exist in Europe/London"),
        (("--queue", "not a queue"), "error: --queue must be 1 to 64 of the characters"),
        (("--after", "nobody"), '--after "nobody" is not a job id'),
        (("--priority", "11"), 'error: --priority "11" must be from 1 to 10'),
    ],
)
def test_an_invalid_job_is_refused_by_its_field(
    rota: RunRota, argv: tuple[str, ...], reason: str
) -> None:
    rota("store", "migrate")
    outcome = rota("jobs", "create", "job", *argv)
    assert (outcome.status, outcome.out) == (2, "")
    assert reason in outcome.err
    assert rota("jobs", "list", "--json").document["items"] == []


def test_a_payload_is_read_from_a_file_and_from_input(
    rota: RunRota, created: Create, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "body.json").write_text('{"from": "a file"}', encoding="utf-8")
    from_file = created("a", "--payload", "@body.json")
    stdin = io.TextIOWrapper(io.BytesIO(b'{"from": "input"}'))
    monkeypatch.setattr("sys.stdin", stdin)
    from_input = created("b", "--payload", "-")
    payloads = [
        rota("jobs", "show", it, "--json").document["payload"] for it in (from_file, from_input)
    ]
    assert payloads == [{"from": "a file"}, {"from": "input"}]


def test_the_actor_is_recorded(rota: RunRota, created: Create, here: Path) -> None:
    job_id = created("later", "--in", "1h")
    rota("jobs", "cancel", job_id, "--why", "a mistake")
    found = rota("why", job_id)
    assert "ada" in found.out
    assert (here / "rota.db").exists()


class TestBulk:
    """Many at once."""

    @pytest.fixture
    def listed(self, here: Path) -> str:
        jobs = [{"name": f"job {number}", "queue": "mail"} for number in range(30)]
        jobs[0]["ref"] = "first"
        jobs[1]["dependencies"] = ["first"]  # type: ignore[assignment] # JSON, not a record
        (here / "jobs.json").write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
        return "jobs.json"

    def test_a_file_of_jobs_becomes_jobs(self, rota: RunRota, listed: str) -> None:
        outcome = rota("jobs", "bulk", "create", listed)
        assert outcome.out == "30 created, 0 were there already.\n"
        statuses = [
            item["status"]
            for item in rota("jobs", "list", "--limit", "50", "--json").document["items"]
        ]
        assert sorted(set(statuses)) == ["PENDING", "READY"]

    def test_a_file_of_many_megabytes_is_read_to_its_end(self, rota: RunRota, here: Path) -> None:
        jobs = [{"name": "a", "queue": "q", "payload": "x" * 60_000} for _ in range(190)]
        (here / "large.json").write_text(json.dumps(jobs), encoding="utf-8")
        assert rota("jobs", "bulk", "create", "large.json").out.startswith("190 created")

    def test_a_file_with_a_job_on_each_line_is_created_in_thousands(
        self, rota: RunRota, here: Path
    ) -> None:
        lines = [json.dumps({"name": f"job {number}", "queue": "q"}) for number in range(1_001)]
        (here / "jobs.jsonl").write_text("\n".join(lines), encoding="utf-8")
        assert rota("jobs", "bulk", "create", "jobs.jsonl").out.startswith("1001 created")

    def test_a_bar_shows_how_far_it_is(self, rota: RunRota, listed: str) -> None:
        assert "Creating" in rota("jobs", "bulk", "create", listed, width=80).err

    def test_a_job_that_is_none_is_named_by_its_place(self, rota: RunRota, here: Path) -> None:
        (here / "bad.json").write_text('[{"name": "a", "queue": "q"}, {"name": "b"}]', "utf-8")
        outcome = rota("jobs", "bulk", "create", "bad.json")
        assert (outcome.status, "jobs[1]" in outcome.err) == (2, True)
        assert rota("jobs", "list", "--json").document["items"] == []

    @pytest.mark.parametrize("content", ["[]", "7", '{"job": []}'])
    def test_a_file_without_jobs_is_refused(self, rota: RunRota, here: Path, content: str) -> None:
        (here / "none.json").write_text(content, encoding="utf-8")
        outcome = rota("jobs", "bulk", "create", "none.json")
        assert (outcome.status, "FILE must hold a list of jobs" in outcome.err) == (2, True)

    def test_the_plan_of_an_action_is_shown_and_then_carried_out(
        self, rota: RunRota, listed: str
    ) -> None:
        rota("jobs", "bulk", "create", listed)
        act = ("jobs", "bulk", "act", "cancel", "--queue", "mail", "--state", "ready")
        dry = rota(*act, "--dry-run")
        assert dry.out.splitlines()[-1] == "29 jobs would be cancelled"
        assert rota("jobs", "list", "--state", "failed").out == "0 jobs\n"
        assert rota(*act, "--yes").out.splitlines()[-1] == "29 jobs cancelled."
        assert rota(*act, "--yes", "--json").document["count"] == 0

    def test_no_peer_is_asked_where_there_is_none(
        self, rota: RunRota, listed: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rota("jobs", "bulk", "create", listed)
        monkeypatch.setattr("sys.stdin", io.StringIO())
        outcome = rota("jobs", "bulk", "act", "delete", "--queue", "mail")
        assert outcome.status == 2
        assert "--yes is needed when the input is not a terminal" in outcome.err
        assert len(rota("jobs", "list", "--limit", "99", "--json").document["items"]) == 30


def test_a_result_is_printed(rota: RunRota, created: Create) -> None:
    job_id = created("print", "--payload", '{"n": 1}')
    early = rota("jobs", "result", job_id)
    assert early.status == 1
    assert early.out == "READY: the job has not ended yet\n"
    asyncio.run(_run_once())
    printed = rota("jobs", "result", job_id)
    assert printed.status == 0
    assert printed.out == '{"printed": 1}\n'
    shown = rota("jobs", "show", job_id)
    assert 'Result: {"printed": 1}' in shown.out
    assert "succeeded" in shown.out
    assert rota("jobs", "show", job_id, "--json").document["result"] == {"printed": 1}


async def _run_once() -> None:
    async with await open_store("sqlite:///rota.db") as store:
        worker = Worker(store, clock=VirtualClock(NOW + timedelta(minutes=1)))

        @worker.handler("print", encode=msgspec.json.encode)
        async def work(context: Context) -> dict[str, int]:
            return {"printed": context.payload["n"]}

        await worker.run_once()


def test_a_failure_is_shown_with_its_traceback(
    rota: RunRota, created: Create, fail_all: Callable[[], None]
) -> None:
    job_id = created("print", "--max-attempts", "1")
    fail_all()
    shown = rota("jobs", "show", job_id)
    assert "Traceback of attempt 1:" in shown.out
    assert 'raise ValueError("out of paper")' in shown.out
    printed = rota("jobs", "result", job_id)
    assert printed.status == 1
    assert printed.out.endswith("FAILED: ValueError: out of paper\n")


def test_a_queue_may_have_a_name_that_specification_5_does_not_allow(rota: RunRota) -> None:
    shown = rota("jobs", "create", "send", "--queue", "eu.mail-out:7", "--key", "one", "--json")
    assert shown.document["queue"] == "eu.mail-out:7"
    again = rota("jobs", "create", "send", "--queue", "eu.mail-out:7", "--key", "one", "--json")
    assert again.document["id"] == shown.document["id"]
    assert len(rota("jobs", "list", "--queue", "eu.mail-out:7", "--json").document["items"]) == 1
    assert rota("jobs", "create", "send", "--queue", "a b").status == 2
