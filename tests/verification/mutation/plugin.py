"""A plugin of pytest: it records which test reaches which line, or runs tests with mistakes.

``ROTA_REACHES`` names a file in which the tests are recorded. ``ROTA_MUTANTS`` names a file of
mutants, a module and the number of a change in each line (``rota.jobs.retry:3``), and
``ROTA_VERDICTS`` one for what came of each. The tests are loaded once. Then a child process for
each mutant changes the function and runs the tests that reach the changed line, the quickest first.
What runs while its module is loaded cannot be changed later: such a mutant is APART. It needs a
process of its own, in which ``ROTA_MUTANT`` names it and the module is loaded with the change.
There all tests run, the quickest first.
"""

import gc
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper as CachedFunction  # noqa: N812 - it has no other name
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from mmap import mmap
from pathlib import Path
from time import process_time
from types import CodeType, FunctionType
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import Phase, settings
from tests.verification.mutation.changes import list_changes, make_change
from tests.verification.mutation.reaches import Reaches

SOURCES = Path(__file__).parents[3] / "src"
LONGEST_SECONDS = 300
"""A change that makes the tests run for longer, by CPU time or by the clock, counts as noticed."""
LEAST_SECONDS, SLOWER_TIMES = 10, 4
"""A test may take this much CPU time, and this many times as long as it took before."""
LARGEST_BYTES = 4 << 30
_COUNT = struct.Struct("i")
APART, NOTICED, MISSED = "apart", "noticed", "missed"


class ChangedLoader(SourceFileLoader):
    number = 0

    def get_code(self, fullname: str) -> CodeType:
        source = make_change(self.get_source(fullname) or "", self.number)
        return compile(source, self.path, "exec")


def find_code(code: CodeType) -> Iterator[CodeType]:
    """The code of each function of a module."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from find_code(each)


def name_code(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


class ChangedFunctions:
    """The functions of loaded modules, which a change may replace."""

    def __init__(self) -> None:
        gc.unfreeze()
        self._loaded: dict[str, list[FunctionType]] = {}
        for each in gc.get_objects():
            if type(each) is FunctionType:  # isinstance fails on a proxy whose object has gone
                self._loaded.setdefault(each.__code__.co_filename, []).append(each)

    def change(self, file: str, number: int) -> list[tuple[FunctionType, CodeType]]:
        """Make a change; the functions that it concerns, with their code so far."""
        source = Path(file).read_text()
        before, after = (
            {name_code(each): each for each in find_code(compile(tree, file, "exec"))}
            for tree in (source, make_change(source, number))
        )
        concerned = {name for name, code in after.items() if before.get(name) != code}
        changed: list[tuple[FunctionType, CodeType]] = []
        for function in self._loaded.get(file, ()):
            code = after.get(name_code(function.__code__))
            if code is None or name_code(code) not in concerned:
                continue
            if code.co_freevars != function.__code__.co_freevars:
                self.restore(changed)
                return []
            changed.append((function, function.__code__))
            function.__code__ = code
        return changed

    def restore(self, changed: list[tuple[FunctionType, CodeType]]) -> None:
        for function, code in changed:
            function.__code__ = code


class CachedResults:
    """What functions of the product keep of earlier calls.

    Without it, a change in such a function would go unnoticed, and so would all tests but the
    first that reach it.
    """

    def __init__(self) -> None:
        gc.unfreeze()
        found = (each for each in gc.get_objects() if type(each) is CachedFunction)
        self._functions = [each for each in found if str(each.__module__).startswith("rota.")]

    def forget(self) -> None:
        for function in self._functions:
            function.cache_clear()


class ChangedModules(MetaPathFinder):
    def __init__(self, module: str, number: int) -> None:
        self._module = module
        self._number = number

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            loader = ChangedLoader(fullname, spec.origin)
            loader.number = self._number
            spec.loader = loader
        return spec


class Recorder:
    """Notes the lines of a package that each test reaches, and how long the test takes."""

    def __init__(self, file: Path, folder: str) -> None:
        self._file = file
        self._seconds: dict[str, float] = {}
        self._cached: CachedResults | None = None
        self._coverage = Coverage(data_file=None, source=[folder], config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._cached = self._cached or CachedResults()
        self._cached.forget()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self._seconds.get(report.nodeid, 0.0)
        self._seconds[report.nodeid] = spent + report.duration

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
        Reaches(self._seconds, lines).write(self._file)


class Mutants:
    """Runs the tests again for each mutant, in a child process; see above."""

    def __init__(self, reaches: Reaches, mutants: Path, verdicts: Path) -> None:
        self._reaches = reaches
        self._names = mutants.read_text().split()
        self._verdicts = verdicts
        self._passing: set[tuple[str, ...]] = set()
        self._cached: CachedResults | None = None
        self._begun = mmap(-1, _COUNT.size)
        """How many tests the child has begun; the memory is shared with it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """A child returns None, so that its tests are run and it ends as any run of tests."""
        functions = ChangedFunctions()
        self._cached = CachedResults()
        for name in self._names:
            verdict = self._try(session, functions, name)
            if verdict is None:
                return None
            with self._verdicts.open("a") as verdicts:
                verdicts.write(f"{name} {verdict}\n")
        return True

    def _try(self, session: pytest.Session, functions: ChangedFunctions, name: str) -> str | None:
        """What came of a mutant; None in the child that is to find out."""
        module, _, number = name.partition(":")
        file = str(SOURCES / f"{module.replace('.', '/')}.py")
        items = self._choose(session.items, file, int(number))
        changed = functions.change(file, int(number)) if items is not None else []
        if not changed or items is None:
            return APART
        verdict = self._run_in_child(session, items)
        if verdict is not None:
            functions.restore(changed)
        run = items[: max(1, _COUNT.unpack_from(self._begun)[0])]
        tests = tuple(each.nodeid for each in run)
        if verdict == NOTICED and tests not in self._passing:
            control = self._run_in_child(session, run)
            if control is None:
                return None
            if control != MISSED:
                raise RuntimeError(f"{name}: the tests that reach it fail without a change")
            self._passing.add(tests)
        return verdict

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Allow the test its time, in a child that is to find out about a mutant."""
        limit_seconds(LEAST_SECONDS + SLOWER_TIMES * self._reaches.find_seconds(nodeid))
        _COUNT.pack_into(self._begun, 0, _COUNT.unpack_from(self._begun)[0] + 1)

    def _run_in_child(self, session: pytest.Session, items: list[pytest.Item]) -> str | None:
        """What came of these tests; None in the child that runs them."""
        _COUNT.pack_into(self._begun, 0, 0)
        child = os.fork()
        if child:
            return await_child(child)
        session.items = items
        enter_child()
        if self._cached is not None:
            self._cached.forget()
        return None

    def _choose(self, items: list[pytest.Item], file: str, number: int) -> list[pytest.Item] | None:
        """The tests that may notice a change, the quickest first; None for all."""
        change = list_changes(Path(file).read_text())[number]
        chosen = self._reaches.find_tests(file, change.first_line, change.last_line)
        if chosen is None:
            return None
        found = [item for item in items if item.nodeid in chosen]
        return sorted(found, key=lambda item: self._reaches.find_seconds(item.nodeid))


def enter_child() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    limit_resources()


def limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_SECONDS, LONGEST_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST_BYTES, LARGEST_BYTES))


def limit_seconds(seconds: float) -> None:
    """How much CPU time this process may take from now on, within its whole limit."""
    end = min(LONGEST_SECONDS, int(process_time() + seconds) + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (end, LONGEST_SECONDS))


def await_child(child: int) -> str:
    ended = os.pidfd_open(child)
    if not select.select([ended], [], [], LONGEST_SECONDS)[0]:
        os.kill(child, signal.SIGKILL)
    os.close(ended)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == pytest.ExitCode.INTERNAL_ERROR:
        raise RuntimeError("the tests could not be run")
    return MISSED if status in {0, pytest.ExitCode.NO_TESTS_COLLECTED} else NOTICED


def install(chosen: str) -> None:
    """Load the module with its change from now on."""
    module, _, number = chosen.partition(":")
    if module in sys.modules:
        raise RuntimeError(f"{module} is loaded already")
    sys.meta_path.insert(0, ChangedModules(module, int(number)))


def pytest_configure(config: pytest.Config) -> None:
    if _recorder is not None:
        config.pluginmanager.register(_recorder)
    else:  # a failure is enough; how small its example can be does not matter
        settings.register_profile("fail at once", phases=[Phase.explicit, Phase.generate])
        settings.load_profile("fail at once")
    if "ROTA_MUTANTS" in os.environ:
        reaches = Reaches.read(Path(os.environ["ROTA_REACHES"]))
        files = Path(os.environ["ROTA_MUTANTS"]), Path(os.environ["ROTA_VERDICTS"])
        config.pluginmanager.register(Mutants(reaches, *files))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "ROTA_MUTANT" in os.environ:
        reaches = Reaches.read(Path(os.environ["ROTA_REACHES"]))
        items.sort(key=lambda item: reaches.find_seconds(item.nodeid))


_recorder: Recorder | None = None
"""It begins before the first module of Rota is loaded, so it sees what runs while they are."""

if "ROTA_MUTANT" in os.environ:
    limit_resources()
    install(os.environ["ROTA_MUTANT"])
elif "ROTA_MUTANTS" not in os.environ and "ROTA_REACHES" in os.environ:
    _recorder = Recorder(Path(os.environ["ROTA_REACHES"]), os.environ["ROTA_RECORDED"])
