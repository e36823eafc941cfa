"""A plugin of pytest: it records which test reaches which line, or loads a module with a mistake.

``ROTA_REACHES`` names a file. Without ``ROTA_MUTANT`` the tests are recorded there. With it, which
names a module and the number of a change (``rota.jobs.retry:3``), the module is loaded with that
change, and only the tests that reach its line are run, the quickest first.
"""

import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from coverage import Coverage
from tests.verification.mutation.changes import list_changes, make_change
from tests.verification.mutation.reaches import Reaches

SOURCES = Path(__file__).parents[3] / "src"


class ChangedLoader(SourceFileLoader):
    number = 0

    def get_code(self, fullname: str) -> CodeType:
        source = make_change(self.get_source(fullname) or "", self.number)
        return compile(source, self.path, "exec")


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
        self._coverage = Coverage(data_file=None, source=[folder], config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
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


class Selection:
    """Runs only the tests that may notice a change, the quickest first."""

    def __init__(self, reaches: Reaches, module: str, number: int) -> None:
        self._reaches = reaches
        file = SOURCES / f"{module.replace('.', '/')}.py"
        self._file = str(file)
        self._change = list_changes(file.read_text())[number]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        change = self._change
        chosen = self._reaches.find_tests(self._file, change.first_line, change.last_line)
        if chosen is not None:
            items[:] = [item for item in items if item.nodeid in chosen]
        items.sort(key=lambda item: self._reaches.seconds.get(item.nodeid, 0.0))


def install(chosen: str) -> None:
    """Load the module with its change from now on."""
    module, _, number = chosen.partition(":")
    if module in sys.modules:
        raise RuntimeError(f"{module} is loaded already")
    sys.meta_path.insert(0, ChangedModules(module, int(number)))


def pytest_configure(config: pytest.Config) -> None:
    if _recorder is not None:
        config.pluginmanager.register(_recorder)
    elif "ROTA_REACHES" in os.environ:
        module, _, number = os.environ["ROTA_MUTANT"].partition(":")
        reaches = Reaches.read(Path(os.environ["ROTA_REACHES"]))
        config.pluginmanager.register(Selection(reaches, module, int(number)))


_recorder: Recorder | None = None
"""It begins before the first module of Rota is loaded, so it sees what runs while they are."""

if "ROTA_MUTANT" in os.environ:
    install(os.environ["ROTA_MUTANT"])
elif "ROTA_REACHES" in os.environ:
    _recorder = Recorder(Path(os.environ["ROTA_REACHES"]), os.environ["ROTA_RECORDED"])
