"""``rota dlq``: listed, looked at, tried again and forgotten."""

from collections.abc import Callable

import pytest
from tests.unit.cli.conftest import RunRota

Create = Callable[..., str]


@pytest.fixture
def dead(created: Create, fail_all: Callable[[], None]) -> str:
    job_id = created("print", "--max-attempts", "2")
    created("staple", "--after", job_id)
    fail_all()
    return job_id


def test_dead_letters_are_listed_with_their_errors(rota: RunRota, dead: str) -> None:
    listed = rota("dlq", "list")
    assert listed.out.splitlines()[-1] == "1 dead letter"
    assert dead in listed.out
    assert "ValueError: out of paper" in listed.out
    assert rota("dlq", "list", "--error", "paper", "--json").document["items"][0]["id"] == dead
    assert rota("dlq", "list", "--kind", "other").out == "0 dead letters\n"


def test_a_list_fits_a_terminal_of_80_columns(rota: RunRota, dead: str) -> None:
    lines = rota("dlq", "list", width=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["Id", "Ended", "Tries", "Name", "Error"]
    assert dead in lines[1]
    listed = rota("jobs", "list", "--state", "blocked", width=80).out.splitlines()
    assert listed[1].split()[1:] == ["blocked", "-", "staple"]


def test_reasons_are_wrapped_beside_their_dash(rota: RunRota, dead: str) -> None:
    lines = rota("why", dead, width=60).out.splitlines()
    assert max(map(len, lines)) <= 60
    at = next(number for number, line in enumerate(lines) if line.startswith("- Attempt 2"))
    assert lines[at + 1].startswith("  ")
    assert rota("why", dead).out.count("\n- Attempt") == 2


def test_one_is_shown_with_all_its_attempts(rota: RunRota, dead: str) -> None:
    shown = rota("dlq", "show", dead).out
    assert shown.count("ValueError: out of paper") == 3
    assert len(rota("dlq", "show", dead, "--json").document["attempts"]) == 2


def test_one_is_tried_again_once(rota: RunRota, dead: str) -> None:
    first = rota("dlq", "retry", dead, "--json").document["replacements"]
    again = rota("dlq", "retry", dead, "--json").document["replacements"]
    assert first == again
    found = f"{dead} had been retried already, by {first[dead]}\n0 retried, 1 had been already.\n"
    assert rota("dlq", "retry", dead).out == found
    assert rota("dlq", "list").out == "0 dead letters\n"


def test_all_are_tried_again_with_what_they_blocked(rota: RunRota, dead: str) -> None:
    dry = rota("dlq", "retry", "--all", "--cascade", "--dry-run")
    assert dry.out == "1 dead letter would be retried, and 1 that was blocked.\n"
    assert len(rota("dlq", "list", "--json").document["items"]) == 1
    done = rota("dlq", "retry", "--all", "--cascade", "--why", "there is paper")
    assert done.out.splitlines()[-1] == "2 retried."
    assert done.out.startswith(f"{dead} is tried again by ")


def test_where_there_are_none_nothing_is_done(rota: RunRota) -> None:
    rota("store", "migrate")
    outcome = rota("dlq", "retry", "--all")
    assert (outcome.status, outcome.out) == (
        0,
        "No dead letter matches: nothing to retry.\n",
    )


def test_one_is_forgotten_unless_others_depend_on_it(
    rota: RunRota, dead: str, created: Create, fail_all: Callable[[], None]
) -> None:
    assert rota("dlq", "discard", dead).status == 4
    alone = created("print", "--max-attempts", "1")
    fail_all()
    assert rota("dlq", "discard", alone, "--why", "printed by hand").out == "1 discarded.\n"
    assert rota("dlq", "show", alone).status == 3


def test_ids_or_all_but_not_both(rota: RunRota, dead: str) -> None:
    for argv in ((), (dead, "--all")):
        outcome = rota("dlq", "retry", *argv)
        assert outcome.status == 2
        assert "give either the ids of dead letters or --all" in outcome.err


def test_a_dry_run_of_given_ids_is_refused(rota: RunRota, dead: str) -> None:
    outcome = rota("dlq", "retry", dead, "--dry-run")
    assert outcome.status == 2
    assert "--dry-run needs --all" in outcome.err
    assert "1 dead letter" in rota("dlq", "list").out
