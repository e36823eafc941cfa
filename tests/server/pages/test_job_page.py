"""The page of a job: attempts, tracebacks, logs, values and the graph."""

import gzip
import re
from datetime import timedelta

import httpx2
import pytest
from tests.browser.stage.story import HOUR, MINUTE, Story
from tests.server.pages.conftest import START, Knock, sign_in

from rota.jobs import Attempt, Ending, JobFilter, JobStatus
from rota.server.pages.formats import MOST_BRANCHES, grow_tree
from rota.server.pages.timeline import fold_traceback, make_strip, make_timeline, read_log
from rota.stores.protocol import DocumentWrite
from rota.telemetry.stats import HOURS, DurationCount, MinuteStats, PartStats, encode
from rota.testing import a_job

SECOND = timedelta(seconds=1)
TRACE = """Traceback (most recent call last):
  File "/app/.venv/lib/python3.12/site-packages/anyio/run.py", line 3, in run
    return await call()
           ^^^^^^^^^^^^
  File "/usr/lib/python3.12/asyncio/runners.py", line 9, in go
    pass
  File "/app/billing.py", line 42, in charge
    gateway.charge()
ValueError: no

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/billing.py", line 50, in main
    charge()
RuntimeError: failed
"""


def an_attempt(number: int = 1, **fields: object) -> Attempt:
    given: dict[str, object] = {
        "job_id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "number": number,
        "token": number,
        "worker": "w-1",
        "started_at": START + number * MINUTE,
        "ended_at": START + number * MINUTE + 5 * SECOND,
        "outcome": "failed",
        "error": f"error {number}",
    }
    return Attempt(**{**given, **fields})  # type: ignore[arg-type]  # fields of the test


def test_frames_of_libraries_are_folded_and_the_whole_text_stays() -> None:
    parts = fold_traceback(TRACE)
    assert [part.folded_count for part in parts] == [0, 2, 0]
    assert "anyio" in parts[1].text
    assert "billing.py" not in parts[1].text
    assert "\n".join(part.text for part in parts) == TRACE.rstrip()


def test_a_traceback_of_libraries_only_is_not_folded() -> None:
    text = 'Traceback:\n  File "/x/site-packages/a.py", line 1, in f\n    g()\nValueError: x'
    (part,) = fold_traceback(text)
    assert (part.text, part.folded_count) == (text, 0)


def test_a_log_is_shown_by_record_with_the_time_since_the_start() -> None:
    log = (
        "2026-10-23T09:42:21.500Z INFO app: begun\n"
        "2026-10-23T09:42:23.000Z ERROR app: broken\nTraceback: more\n"
    )
    lines = list(read_log(an_attempt(log=log)))
    assert [(line.after, line.level, line.tone) for line in lines] == [
        ("+1.5 s", "INFO", "quiet"),
        ("+3 s", "ERROR", "red"),
    ]
    assert lines[1].text == "broken\nTraceback: more"
    assert next(iter(read_log(an_attempt(log="free text")))).text == "free text"


async def test_attempts_say_how_long_they_waited_and_ran(story: Story) -> None:
    job = await story.ask("Sum", ago=3 * MINUTE)
    done = await story.complete(job, MINUTE)
    created, attempt, end = make_timeline(done, [], START)
    assert (created.headline, end.headline) == ("Created", "Completed")
    assert attempt.headline == "Attempt 1 succeeded"
    assert attempt.note == "1 min 56 s after creation, ran 4 s, on mail-7f2c"
    assert [(each.look, each.title) for each in make_strip(done, [], START)] == [
        ("calm-wash", "waited: 1 min 56 s"),
        ("good", "attempt 1 succeeded: 4 s"),
    ]


async def test_a_running_attempt_says_for_how_long(story: Story) -> None:
    job = await story.start(await story.ask("Sum", ago=3 * MINUTE), MINUTE)
    step = make_timeline(job, [], START)[-1]
    assert step.headline == "Attempt 1 is running"
    assert step.note == "2 min after creation, for 1 min now, on mail-7f2c"


def test_very_long_logs_are_shown_for_the_attempt_that_is_asked_for() -> None:
    attempts = [an_attempt(number, log="x" * 16_000, traceback="y" * 9_000) for number in (1, 2, 3)]
    job = a_job(created_at=START, attempt_count=3)
    cut = [step.number for step in make_timeline(job, attempts, START) if step.is_cut]
    assert cut == [1]
    cut = [step.number for step in make_timeline(job, attempts, START, 1) if step.is_cut]
    assert cut == [2]


def test_a_tree_has_every_value_and_says_what_it_leaves_out() -> None:
    tree = grow_tree({"a": [1, "x", None], "b": {}}, "payload")
    numbers, nothing = tree.parts
    assert (tree.text, numbers.name, numbers.text, nothing.text) == ("{2}", "a", "[3]", "{}")
    assert [(it.text, it.look) for it in numbers.parts] == [
        ("1", "number"),
        ('"x"', "text"),
        ("null", "word"),
    ]
    large = grow_tree(list(range(1_000)), "payload")
    assert (len(large.parts), large.left_out) == (MOST_BRANCHES, 600)


async def test_the_page_has_values_as_a_tree_and_masks_secrets(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    job = await story.ask("Sum", payload={"order": {"id": 7}, "api_token": "s3cr3t"})
    shown = (await pages.get(f"/admin/jobs/{job.id}")).text
    assert '<span class="name">id</span>: <code class="is-number">7</code>' in shown
    assert "secrets are masked" in shown
    assert "s3cr3t" not in shown
    assert "Copy Payload" in shown


async def test_a_thousand_jobs_are_drawn_on_the_large_page_within_the_size_of_a_page(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    root = await story.ask("Start")
    middle = [a_job(name=f"Part {at}", dependencies=[root.id]) for at in range(998)]
    await story.store.insert(middle, START)
    last = a_job(name="Last", dependencies=[each.id for each in middle])
    await story.store.insert([last], START)
    small = await pages.get(f"/admin/jobs/{last.id}")
    assert "Show the whole graph" in small.text
    assert len(small.content) < 150_000
    large = await pages.get(f"/admin/jobs/{last.id}/graph")
    assert large.headers["content-encoding"] == "gzip"
    assert len(gzip.compress(large.content)) < 150_000
    assert len(re.findall(r'<a href="/admin/jobs/[^"]+" class="node', large.text)) == 1_000
    refresh = await pages.get(f"/admin/jobs/{last.id}/graph", headers={"HX-Request": "true"})
    assert len(refresh.content) < 5_000
    assert f'data-mark="{_mark(large.text)}"' in refresh.text


def _mark(text: str) -> str:
    found = re.search(r'aria-label="Dependency graph" data-mark="(\d+)"', text)
    assert found is not None
    return found[1]


async def test_a_refresh_has_the_states_of_the_graph_and_no_drawing(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    first = await story.ask("First", ago=MINUTE)
    second = await story.ask("Second", ago=MINUTE, dependencies=[first.id])
    beside = await story.ask("Beside", ago=MINUTE, dependencies=[first.id])
    path = f"/admin/jobs/{second.id}"
    whole = (await pages.get(path)).text
    assert "depends on 1, 0 depend on it, 1 beside" in whole
    assert f'href="/admin/jobs/{beside.id}"' in whole
    before = (await pages.get(path, headers={"HX-Request": "true"})).text
    assert '<svg class="graph"' not in before
    assert 'data-signs="due/ring/blue,pending/dashed/quiet" value="0,1,1"' in before
    await story.complete(first, SECOND)
    after = (await pages.get(path, headers={"HX-Request": "true"})).text
    assert 'data-signs="completed/check/green,due/ring/blue" value="0,1,1"' in after


def _read_form(text: str, target: str) -> dict[str, list[str]]:
    """What the form with that target sends."""
    form = text.partition(f'action="{target}"')[2].partition("</form>")[0]
    sent: dict[str, list[str]] = {}
    for name, value in re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form):
        sent.setdefault(name, []).append(value)
    return sent


async def _press(pages: httpx2.AsyncClient, path: str, action: str) -> str:
    """The question that a button of the page of a graph leads to."""
    sent = _read_form((await pages.get(path)).text, "/admin/confirm")
    asked = await pages.post("/admin/confirm", data={**sent, "action": action})
    return asked.text


async def test_all_jobs_of_a_graph_are_cancelled_after_a_question_and_can_be_restored(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    done = await story.complete(await story.ask("Fetch", ago=MINUTE), SECOND)
    first = await story.ask("Sum", ago=MINUTE, dependencies=[done.id])
    middle = await story.ask("Check", ago=MINUTE, dependencies=[first.id])
    last = await story.ask("Mail", ago=MINUTE, dependencies=[middle.id, first.id])
    path = f"/admin/jobs/{middle.id}/graph"
    question = await _press(pages, path, "cancel")
    assert "<h1>Cancel 3 jobs?</h1>" in question
    assert f'href="{path}">Keep as is' in question
    kept = "stays as it is: 1 completed. Only a job that has not ended can be cancelled."
    assert kept in " ".join(question.split())
    sent = await pages.post("/admin/act", data=_read_form(question, "/admin/act"))
    location = sent.headers["location"]
    assert location.startswith(f"{path}?done=cancelled&count=3&undo=")
    live = [await story.read(each) for each in (first, middle, last)]
    assert [it.ending for it in live] == [Ending.CANCELLED] * 3  # not one of them is only blocked
    shown = (await pages.get(location)).text
    assert "3 jobs cancelled." in shown
    undone = await pages.post("/admin/act", data=_read_form(shown, "/admin/act"))
    assert undone.headers["location"] == "/admin/jobs?done=restored&count=3"
    again = await story.store.find("default", JobFilter(status=JobStatus.PENDING), limit=10)
    assert sorted(it.name for it in again.items) == ["Check", "Mail"]


async def test_retry_in_a_graph_includes_the_jobs_that_the_failure_blocked(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    done = await story.complete(await story.ask("Fetch", ago=HOUR), SECOND)
    dead = await story.die(await story.ask("Sum", ago=HOUR, dependencies=[done.id]), MINUTE)
    blocked = await story.ask("Mail", ago=MINUTE, dependencies=[dead.id])
    path = f"/admin/jobs/{blocked.id}/graph"
    question = await _press(pages, path, "retry")
    words = " ".join(question.split())
    assert "<h1>Retry 1 job?</h1>" in question
    assert "Also submit again 1 job that it blocked" in words
    assert "stays as it is: 1 completed. Only a job that failed can be retried." in words
    data = {**_read_form(question, "/admin/act"), "cascade": "yes"}
    sent = await pages.post("/admin/act", data=data)
    assert sent.headers["location"] == f"{path}?done=retried&count=2"


async def test_buttons_of_a_graph_need_a_graph_and_an_operator(story: Story, knock: Knock) -> None:
    alone, first = await story.ask("Alone"), await story.ask("First")
    await story.ask("Second", dependencies=[first.id])
    reader, operator = knock("read"), knock("read+operate")
    await sign_in(reader, "read")
    await sign_in(operator, "read+operate")
    words = "Cancel all of this graph…"
    assert words in (await operator.get(f"/admin/jobs/{first.id}/graph")).text
    assert words not in (await operator.get(f"/admin/jobs/{alone.id}/graph")).text
    assert words not in (await reader.get(f"/admin/jobs/{first.id}/graph")).text


@pytest.mark.parametrize(
    ("token", "labels"),
    [
        ("read", []),
        ("read+operate", ["Retry…", "Discard…"]),
        ("read+write", ["Duplicate…"]),
        ("read+write+operate", ["Retry…", "Discard…", "Edit and retry…", "Duplicate…"]),
    ],
)
async def test_a_dead_job_offers_what_the_caller_may_do(
    story: Story, knock: Knock, token: str, labels: list[str]
) -> None:
    job = await story.die(await story.ask("Charge", ago=10 * MINUTE), MINUTE)
    client = knock(token)
    await sign_in(client, token)
    shown = (await client.get(f"/admin/jobs/{job.id}")).text
    known = ("Run now", "Retry…", "Discard…", "Edit and retry…", "Edit…", "Duplicate…", "Cancel…")
    assert [each for each in known if f">{each}<" in shown] == labels


async def count_runs(story: Story, kind: str, milliseconds: list[float], days_ago: int = 1) -> None:
    """Runs of a kind that ended that long ago."""
    found = DurationCount()
    for each in milliseconds:
        found.add(each)
    at = HOURS.start_of(START - timedelta(days=days_ago))
    part = PartStats(kind, "default", len(milliseconds), handler=found.freeze())
    body = encode([MinuteStats(at=at, succeeded=len(milliseconds), parts=(part,))])
    key = HOURS.key_of(story.tenant, at)
    await story.store.write_all([DocumentWrite(HOURS.collection, key, None, body)])


async def test_a_job_says_how_long_its_kind_usually_runs(
    story: Story, pages: httpx2.AsyncClient
) -> None:
    job = await story.ask("Sum", kind="sum", ago=3 * MINUTE)
    other = await story.ask("Sum", kind="other", ago=3 * MINUTE)
    url = f"/admin/jobs/{job.id}"
    assert "Half of the runs" not in (await pages.get(url)).text
    await count_runs(story, "sum", [1_000.0] * 30 + [4_000.0] * 2)
    text = (await pages.get(url)).text
    found = re.search(r"take up to (\S+ m?s), 95 % up to (\S+ m?s) \(32 runs in the last 7 d", text)
    assert found is not None
    row = (await pages.get("/admin/kinds/sum?range=7d")).text
    assert f"<dd>{found[1]}<small>run time" in row
    assert f"<dd>{found[2]}<small>run time" in row
    assert "longer than 95 %" not in text
    await count_runs(story, "other", [1_000.0], days_ago=2)
    assert "Half of the runs" not in (await pages.get(f"/admin/jobs/{other.id}")).text


@pytest.mark.parametrize(
    ("runs", "ago", "is_slow"), [(20, 5 * SECOND, True), (20, SECOND, False), (19, HOUR, False)]
)
async def test_a_run_that_takes_unusually_long_is_marked(
    story: Story, pages: httpx2.AsyncClient, runs: int, ago: timedelta, *, is_slow: bool
) -> None:
    job = await story.start(await story.ask("Sum", kind="sum", ago=2 * HOUR), ago)
    await count_runs(story, "sum", [2_000.0] * runs)
    text = (await pages.get(f"/admin/jobs/{job.id}")).text
    assert "Half of the runs" in text
    assert ("longer than 95 % of runs of this kind" in text) is is_slow
