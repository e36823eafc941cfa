"""The page runner is given pages that lie, so that a green page means it was checked."""

from pathlib import Path

import pytest
from tests.docs.environment import pinned_environment
from tests.docs.pages import blocks_of
from tests.docs.running.page_run import PageRun


def run(text: str, folder: Path) -> None:
    with pinned_environment(folder):
        PageRun("page.md", folder).run(blocks_of(text.replace("'''", "```")))


def test_blocks_of_a_page_share_their_names(tmp_path: Path) -> None:
    run("'''python\na = 1\n'''\nand\n'''python\nassert a == 1\n'''\n", tmp_path)


def test_a_block_that_raises_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run("'''python\n1 / 0\n'''\n", tmp_path)


def test_await_may_stand_at_the_top_of_a_block(tmp_path: Path) -> None:
    text = "'''python\nasync def f():\n    return 2\nassert await f() == 3\n'''\n"
    with pytest.raises(AssertionError):
        run(text, tmp_path)
    run(text.replace("3", "2"), tmp_path)


def test_a_block_inside_a_list_is_run_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run("- so:\n\n    '''python\n    if True:\n        1 / 0\n    '''\n", tmp_path)


def test_shown_output_is_compared(tmp_path: Path) -> None:
    text = "'''python\nprint('as', 1, 'said')\n'''\n\n<!-- output -->\n'''text\nas ... said\n'''\n"
    run(text, tmp_path)
    with pytest.raises(AssertionError, match=r"page\.md:7 shows"):
        run(text.replace("... said", "... done"), tmp_path)


def test_text_without_the_mark_is_only_shown(tmp_path: Path) -> None:
    run("'''python\nprint(1)\n'''\n\n'''text\n2\n'''\n", tmp_path)


def test_a_titled_block_becomes_a_file(tmp_path: Path) -> None:
    shown = "'''text title=\"a.txt\"\nhello\n'''\n"
    used = "'''python\nfrom pathlib import Path\nassert Path('a.txt').read_text() == 'x'\n'''\n"
    with pytest.raises(AssertionError):
        run(shown + used, tmp_path)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "hello\n"


def test_a_python_block_with_a_title_is_run_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run("'''python title=\"a.py\"\n1 / 0\n'''\n", tmp_path)


def test_a_python_block_with_a_title_is_a_module_of_the_page(tmp_path: Path) -> None:
    module = "'''python title=\"shop.py\"\nprice = 3\n'''\n"
    run(module + "'''python\nfrom shop import price\nassert price == 3\n'''\n", tmp_path)
    changed = module.replace("3", "4000")
    run(module + changed + "'''python\nimport shop\nassert shop.price == 4000\n'''\n", tmp_path)
    with pytest.raises(NameError):
        run(module + "'''python\nprice\n'''\n", tmp_path)


def test_code_for_another_library_is_shown_if_it_parses_and_is_not_for_rota(tmp_path: Path) -> None:
    run("'''py\nfrom celery import Celery\n'''\n", tmp_path)
    with pytest.raises(SyntaxError):
        run("'''py\nfrom celery import\n'''\n", tmp_path)
    with pytest.raises(ValueError, match="uses Rota"):
        run("'''py\nimport celery\nfrom rota import Rota\n'''\n", tmp_path)


def test_sessions_are_checked(tmp_path: Path) -> None:
    run("'''pycon\n>>> a = 1\n>>> a\n1\n'''\n'''pycon\n>>> a + 1\n2\n'''\n", tmp_path)
    with pytest.raises(AssertionError, match="Expected"):
        run("'''pycon\n>>> 1 + 1\n3\n'''\n", tmp_path)


@pytest.mark.parametrize("language", ["", "bash", "py", "{.python}"])
def test_a_block_that_would_go_unchecked_is_refused(language: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="are not run"):
        run(f"'''{language}\nx\n'''\n", tmp_path)


def test_a_block_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2 has no end"):
        blocks_of("text\n```python\n1 / 0\n")


@pytest.mark.parametrize(
    ("commands", "error"),
    [
        ("$ make up test", None),
        ("$ make nothing", AssertionError),
        ("$ rm a", ValueError),
        ("no command", ValueError),
        ("$ rota no-such-command", AssertionError),
        ("$ rota no-such-command\n...\n$ echo $?\n2", None),
        ("$ rota no-such-command\n...\n$ echo $?\n0", AssertionError),
        ("$ rota no-such-command\n...\n$ rota --version", AssertionError),
        ("$ rota --version\n...", None),
        ("$ rota --version\nno such version", AssertionError),
    ],
)
def test_commands_are_checked(commands: str, error: type[Exception] | None, tmp_path: Path) -> None:
    if error is None:
        run(f"'''console\n{commands}\n'''\n", tmp_path)
        return
    with pytest.raises(error):
        run(f"'''console\n{commands}\n'''\n", tmp_path)
