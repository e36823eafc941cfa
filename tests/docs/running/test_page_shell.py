"""Commands of a shell, and services that run on, on pages that lie and pages that do not."""

from pathlib import Path

import pytest
from tests.docs.environment import pinned_environment
from tests.docs.pages import blocks_of
from tests.docs.running.page_run import PageRun

SERVE = """
'''console
$ rota serve
09:14:02Z  Store: sqlite:///rota.db
09:14:02Z  Pages: http://127.0.0.1:8080/admin
'''
"""


def run(text: str, folder: Path) -> None:
    with pinned_environment(folder):
        PageRun("page.md", folder).run(blocks_of(text.replace("'''", "```")))


def sh(commands: str, shown: str | None = None) -> str:
    output = "" if shown is None else f"<!-- output -->\n'''text\n{shown}\n'''\n"
    return f"'''sh\n{commands}\n'''\n{output}"


def test_a_block_that_fails_fails_the_page(tmp_path: Path) -> None:
    run(sh("true"), tmp_path)
    for commands in ("false", "false\ntrue", "false | true", "echo $nothing"):
        with pytest.raises(AssertionError, match="ends with"):
            run(sh(commands), tmp_path)


def test_the_output_of_a_block_is_compared(tmp_path: Path) -> None:
    run(sh("echo one; echo two", "one\n..."), tmp_path)
    with pytest.raises(AssertionError, match="shows"):
        run(sh("echo one", "two"), tmp_path)


def test_exported_variables_and_functions_stay(tmp_path: Path) -> None:
    first = sh('export NAME=ada\ngreet() { echo "hello, $1"; }')
    python = "'''python\nimport os\nassert os.environ['NAME'] == 'ada'\n'''\n"
    run(first + sh('greet "$NAME"', "hello, ada") + python, tmp_path)


def test_an_answer_that_is_an_error_fails_the_page_unless_it_is_shown(tmp_path: Path) -> None:
    ask = "curl -s http://127.0.0.1:8080/api/v1/jobs"
    refusal = '{"code":"UNAUTHORIZED",...}'
    run(SERVE + sh(ask, refusal), tmp_path)
    with pytest.raises(AssertionError, match="ends with 22"):
        run(SERVE + sh(ask), tmp_path)


def test_the_shown_address_and_token_are_those_of_the_service_that_runs(tmp_path: Path) -> None:
    made = "'''console\n$ rota tokens create a --scope read\n...\nrota_…\n'''\n"
    ask = (
        "curl -s -w '\\n%{url_effective}\\n' -H 'Authorization: Bearer rota_…' "
        "http://127.0.0.1:8080/api/v1/jobs"
    )
    shown = '{"items":[],"next_cursor":null,"has_more":false}\nhttp://127.0.0.1:8080/api/v1/jobs'
    run(made + SERVE + sh(ask, shown), tmp_path)


def test_a_service_that_prints_something_else_fails_the_page(tmp_path: Path) -> None:
    folder = "'''console\n$ rota serve --host nowhere.invalid\n09:14:02Z  Pages\n'''\n"
    with pytest.raises(AssertionError, match="all that was printed"):
        run(folder, tmp_path)


def test_a_service_that_shows_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has to show what it prints"):
        run("'''console\n$ rota serve\n'''\n", tmp_path)


@pytest.mark.parametrize("command", ["$ rota up", "curl localhost", "rota top", "make up"])
def test_commands_that_would_go_unchecked_are_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="commands are not text"):
        run(f"'''text\nfirst\n{command}\n'''\n", tmp_path)
