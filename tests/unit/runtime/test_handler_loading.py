"""Handlers as users name them: mappings, registries and functions, loaded and loaded anew."""

from pathlib import Path

import pytest

from rota.errors import InvalidConfigurationError, InvalidInputError
from rota.runtime.user_modules import (
    list_watched_files,
    load_handlers,
    register_handlers,
    reload_handlers,
)
from rota.stores.memory import MemoryStore
from rota.worker import Worker

MODULE = """
from rota.worker.registry import Registry

async def greet(context): ...
def count(context): ...

mapping = {"greet": greet, "count": count}
registry = Registry(mapping, notifies={"greet"})

def make():
    return mapping

def register(worker):
    worker.handler("greet", notifies=True)(greet)

nothing = 7
broken = {"greet": "hello"}
nameless = {"": greet}

def two(first, second): ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "handlers_of_a_user"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    return name


def kinds_of(*references: str, built_in: tuple[str, ...] = ()) -> list[str]:
    worker = Worker(MemoryStore())
    register_handlers(worker, load_handlers(references), dict.fromkeys(built_in, print))
    return sorted(worker.kinds)


@pytest.mark.parametrize("name", ["mapping", "registry", "make"])
def test_kinds_are_found_in_any_spelling(module: str, name: str) -> None:
    assert kinds_of(f"{module}:{name}") == ["count", "greet"]


def test_a_function_of_a_worker_registers_by_itself(module: str) -> None:
    assert kinds_of(f"{module}:register") == ["greet"]


def test_the_options_of_a_registrys_handlers_are_kept(module: str) -> None:
    worker = Worker(MemoryStore())
    register_handlers(worker, load_handlers([f"{module}:registry"]), {})
    assert worker._resources.handlers["greet"].notifies
    assert not worker._resources.handlers["count"].notifies


def test_a_handler_of_ones_own_takes_the_place_of_a_built_in_one(module: str) -> None:
    worker = Worker(MemoryStore())
    registrations = load_handlers([f"{module}:register"])
    register_handlers(worker, registrations, {"greet": print, "log.message": print})
    assert sorted(worker.kinds) == ["greet", "log.message"]
    assert worker._resources.handlers["greet"].work is not print


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("handlers_of_a_user", "write it as module:name"),
        (":mapping", "write it as module:name"),
        ("no_such_module_anywhere:mapping", "there is no module no_such_module_anywhere"),
        ("tasks.py:app", "name the module, not the file: tasks:app"),
        ("shop/tasks.py:app", "name the module, not the file: shop.tasks:app"),
        ("handlers_of_a_user:absent", "module handlers_of_a_user has no absent"),
        ("handlers_of_a_user:nothing", "it must be an app, a mapping of kinds to functions"),
        ("handlers_of_a_user:two", "it must be an app, a mapping of kinds to functions"),
        ("handlers_of_a_user:broken", "'greet' must be callable"),
        ("handlers_of_a_user:nameless", "must be a text, and not empty"),
    ],
)
@pytest.mark.usefixtures("module")
def test_invalid_handlers_are_refused_by_name(reference: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        load_handlers([reference])
    assert refused.value.message.startswith(f'Invalid --handlers "{reference}": ')
    assert reason in refused.value.message
    assert refused.value.details["field"] == "--handlers"


def test_a_module_that_raises_is_refused_with_what_it_raised(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyError('DATABASE')", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="cannot be loaded: KeyError: 'DATABASE'"):
        load_handlers([f"{module}:mapping"])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import os; os.environ['NOT_SET']", r"KeyError: 'NOT_SET' \({file}, line 2\)"),
        ("import absent_module", r"No module named 'absent_module' \({file}, line 2\)"),
        ("app = (", r"SyntaxError: '\(' was never closed \({file}, line 2\)"),
    ],
)
def test_the_line_that_raised_is_named(
    module: str, tmp_path: Path, line: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{module}.py").write_text(f"\n{line}\n", encoding="utf-8")
    expected = f"module {module} cannot be loaded: .*{reason.format(file=module + '.py')}$"
    with pytest.raises(InvalidInputError, match=expected):
        load_handlers([f"{module}:mapping"])


def test_loaded_anew_a_changed_file_counts(module: str, tmp_path: Path) -> None:
    assert kinds_of(f"{module}:mapping") == ["count", "greet"]
    changed = MODULE + "\nmapping = {'other': greet, 'and.another': count}\n"
    (tmp_path / f"{module}.py").write_text(changed, encoding="utf-8")
    worker = Worker(MemoryStore())
    register_handlers(worker, reload_handlers([f"{module}:mapping"]), {})
    assert sorted(worker.kinds) == ["and.another", "other"]


def test_a_file_that_cannot_be_loaded_anew_leaves_all_as_it_was(
    module: str, tmp_path: Path
) -> None:
    load_handlers([f"{module}:mapping"])
    (tmp_path / f"{module}.py").write_text("def broken(:\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="SyntaxError"):
        reload_handlers([f"{module}:mapping"])
    assert kinds_of(f"{module}:mapping") == ["count", "greet"]


def test_the_files_of_the_named_modules_are_watched(module: str, tmp_path: Path) -> None:
    load_handlers([f"{module}:mapping"])
    assert list_watched_files([f"{module}:mapping"]) == {tmp_path / f"{module}.py"}


def test_a_wrong_variable_is_not_blamed_on_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app_of_a_user.py").write_text("from rota import Rota\n\napp = Rota()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WORKER_BATCH", "x")
    with pytest.raises(InvalidConfigurationError) as refused:
        load_handlers(["app_of_a_user:app"])
    assert refused.value.message.startswith("Invalid configuration: WORKER_BATCH must be a whole")
