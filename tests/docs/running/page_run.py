"""Runs a page from top to bottom, as a careful reader would.

- ``python`` blocks share one namespace. ``await`` may stand at their top level. One with a title
  like ``tasks.py`` is a module: it is written to that file and imported, and later blocks and
  commands can use it.
- ``py`` blocks show code for a library that Rota replaces. They must parse, import that library,
  and not use Rota.
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
import importlib
import inspect
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tests.docs.environment import check_output
from tests.docs.pages import Block
from tests.docs.running import console
from tests.docs.running.services import Services
from tests.docs.running.shell import run_shell

from rota import Rota

SHOWN_ONLY = {"ini", "json", "mermaid", "sql", "text", "toml", "yaml"}

_USES_ROTA = re.compile(r"^\s*(?:from|import) rota\b", re.MULTILINE)
_USES_OTHERS = re.compile(
    r"^(?:from|import) (?:apscheduler|arq|celery|dramatiq|rq)\b", re.MULTILINE
)
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
        with self._importable(), asyncio.Runner() as loop:
            for block, following in zip(blocks, [*blocks[1:], None], strict=False):
                is_shown = following is not None and following.is_output
                self._run_block(block, loop, is_shown=is_shown)

    @contextlib.contextmanager
    def _importable(self) -> Iterator[None]:
        """Let the page import its files, and records look up their annotations in the page."""
        known = set(sys.modules)
        sys.modules["page"] = self._module
        sys.path.insert(0, str(self._folder))
        try:
            yield
        finally:
            sys.path.remove(str(self._folder))
            self._services.stop()
            for name in set(sys.modules) - known:
                if _is_below(sys.modules[name], self._folder) or name == "page":
                    _close_apps(sys.modules.pop(name))

    def _run_block(self, block: Block, loop: asyncio.Runner, *, is_shown: bool) -> None:
        where = f"{self._name}:{block.line}"
        if block.title:
            self._folder.joinpath(block.title).write_text(block.text, encoding="utf-8")
        if block.is_output:
            check_output(block.text, self._printed, where)
        elif block.language == "python" and (block.title or "").endswith(".py"):
            self._printed = _import_anew(Path(str(block.title)).stem)
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


def _import_anew(name: str) -> str:
    """Import a module that was just written; returns what it prints."""
    if name in sys.modules:
        _close_apps(sys.modules.pop(name))
    importlib.invalidate_caches()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        importlib.import_module(name)
    return printed.getvalue()


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


def _close_apps(module: ModuleType) -> None:
    for value in vars(module).values():
        if isinstance(value, Rota):
            value.sessions.close_bridge()


def _check_shown_only(block: Block, where: str) -> None:
    if block.language == "py" and _USES_OTHERS.search(block.text):
        compile(block.text, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if _USES_ROTA.search(block.text):
            raise ValueError(f"{where}: a block that uses Rota is python, and is run")
        return
    if block.language not in SHOWN_ONLY:
        raise ValueError(f"{where}: blocks in {block.language or 'no language'!r} are not run")
    if block.language == "text" and _COMMAND.search(block.text):
        raise ValueError(f"{where}: commands are not text: a sh or console block would be run")
