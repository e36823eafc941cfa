"""Commands take the beginning of an id where there is only one job with it."""

from collections.abc import Callable

from tests.unit.cli.conftest import RunRota

Create = Callable[..., str]


def test_the_beginning_of_an_id_is_enough_for_every_command(rota: RunRota, created: Create) -> None:
    job_id = created("only", "--in", "1h")
    for start in (job_id[:8], job_id[:14].upper(), job_id[:4]):
        assert rota("jobs", "show", start, "--json").document["id"] == job_id
    assert rota("why", job_id[:8]).status == 0
    assert rota("jobs", "update", job_id[:8], "--priority", "9").out == f"Changed {job_id}.\n"
    assert rota("jobs", "cancel", job_id[:8]).out == f"Cancelled {job_id}.\n"
    assert rota("dlq", "retry", job_id[:8]).status != 2
    assert rota("jobs", "delete", job_id[:8]).out == f"Deleted {job_id}.\n"


def test_a_job_waits_for_others_by_the_beginning_of_their_ids(
    rota: RunRota, created: Create
) -> None:
    first = created("first", "--in", "1h")
    waiting = rota("jobs", "create", "second", "--after", first[:8], "--json").document
    assert waiting["dependencies"] == [first]
    missing = rota("jobs", "create", "third", "--after", "ffffffff")
    assert (missing.status, "begins with ffffffff" in missing.err) == (3, True)
    several = rota("jobs", "create", "third", "--after", first[:4])
    assert several.status == 2
    assert '--after "' in several.err


def test_the_beginning_of_a_series_is_enough(rota: RunRota) -> None:
    made = rota("series", "create", "tick", "--every", "1h", "--json").document
    series_id = str(made["id"])
    assert rota("series", "pause", series_id[:8]).out == "Paused: tick.\n"
    assert rota("series", "show", series_id[:8], "--json").document["series"]["id"] == series_id


def test_several_jobs_are_named_and_none_is_not_found(rota: RunRota, created: Create) -> None:
    one, other = created("one"), created("other")
    outcome = rota("jobs", "cancel", one[:8], "--json")
    assert outcome.status == 2
    assert one in outcome.error["message"]
    assert other in outcome.error["message"]
    missing = rota("jobs", "show", "ffffffff")
    assert (missing.status, "begins with ffffffff" in missing.err) == (3, True)
    assert rota("jobs", "show", "fff").status == 2
