"""Runs a page from top to bottom, as a careful reader would.

- ``python`` blocks share one namespace. ``await`` may stand at their top level.
- ``pycon`` blocks are checked like doctests, in the same namespace.
- ``console`` blocks: ``$ rota …`` and ``$ python examples/…`` are run and what they print is
  compared with what is shown, if anything is; ``$ echo $?`` shows the exit status, and must follow
  a command that fails. ``$ make …`` and ``$ pip …`` are not run, but the target has to exist.
  ``$ rota up``, ``serve`` and ``work`` run on, as real processes, until the page ends or starts
  another; they have to print what is shown.
- ``sh`` blocks are run by a shell, with curl and jq, against what the page started. Variables that
  are exported, and functions, stay. A block that fails fails the page, and so does an answer that
  is an error, unless what the block prints is shown.
- Blocks in other languages are only written to a file, when they have a title.

There is no way to exempt a block.
"""

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import re
import sys
from pathlib import Path
from types import ModuleType

from tests.docs.pages import Block
from tests.docs.running import console
from tests.docs.running.services import Services
from tests.docs.running.shell import run_shell
from tests.docs.surroundings import check_output

SHOWN_ONLY = {"ini", "json", "mermaid", "sql", "text", "toml", "yaml"}

_COMMAND = re.compile(r"^(\$|curl|rota|make) ", re.MULTILINE)


class PageRun:
    """One page being run; its blocks share a namespace, an event loop and a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._module = ModuleType("page")
        self._printed = ""
        self._services = Services(folder)

    def run(self, blocks: list[Block]) -> None:
        """Run all blocks in order; raise what they raise, or what they show and do not print."""
        sys.modules["page"] = self._module  # records look up their annotations there
        try:
            with asyncio.Runner() as loop:
                for block, following in zip(blocks, [*blocks[1:], None], strict=False):
                    is_shown = following is not None and following.is_output
                    self._run_block(block, loop, is_shown=is_shown)
        finally:
            del sys.modules["page"]
            self._services.stop()

    def _run_block(self, block: Block, loop: asyncio.Runner, *, is_shown: bool) -> None:
        where = f"{self._name}:{block.line}"
        if block.title:
            self._folder.joinpath(block.title).write_text(block.text, encoding="utf-8")
        if block.is_output:
            check_output(block.text, self._printed, where)
        elif block.language == "python":
            self._printed = self._run_python(block, where, loop)
        elif block.language == "pycon":
            self._run_session(block, where)
        elif block.language == "console":
            console.run_console(block.text, self._folder, self._services, where)
        elif block.language == "sh":
            self._printed = run_shell(
                block.text, self._folder, self._services, is_shown=is_shown, where=where
            )
        else:
            _check_shown_only(block, where)

    def _run_python(self, block: Block, where: str, loop: asyncio.Runner) -> str:
        padded = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
        code = compile(
            padded, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = eval(code, self._module.__dict__)  # noqa: S307 - running pages is the purpose
            if inspect.iscoroutine(result):
                loop.run(result)
        return printed.getvalue()

    def _run_session(self, block: Block, where: str) -> None:
        names = self._module.__dict__
        test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line - 1)
        if not test.examples:
            raise ValueError(f"{where}: a session without a prompt")
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        report = io.StringIO()
        runner.run(test, out=report.write, clear_globs=False)
        names.update(test.globs)
        if runner.failures:
            raise AssertionError(report.getvalue())


def _check_shown_only(block: Block, where: str) -> None:
    if block.language not in SHOWN_ONLY:
        raise ValueError(f"{where}: blocks in {block.language or 'no language'!r} are not run")
    if block.language == "text" and _COMMAND.search(block.text):
        raise ValueError(f"{where}: commands are not text: a sh or console block would be run")
