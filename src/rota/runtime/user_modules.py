"""Loads the Python modules a user names, and reloads them during development."""

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from traceback import extract_tb
from typing import Any, Protocol, TypeAlias, runtime_checkable

from rota.clock.protocol import Clock
from rota.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    TaskDeclarationError,
    describe_error,
    invalid,
)
from rota.stores.opened import OpenStore
from rota.worker import Worker, WorkerSettings
from rota.worker.registry import Handler, Registry, Work


def load_reference(reference: str, option: str) -> Any:
    """The object at ``module:name``. Raises InvalidInputError for ``option`` when there is none.

    The working directory is searched first. An error that the module raises on import becomes the
    reason.
    """
    module_name, separator, name = reference.partition(":")
    if not separator or not module_name or not name:
        raise refuse(reference, option, "write it as module:name, such as tasks:app")
    if module_name.endswith(".py"):
        right = ".".join(Path(module_name).with_suffix("").parts)
        raise refuse(reference, option, f"name the module, not the file: {right}:{name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except InvalidConfigurationError:
        raise  # the environment is at fault, not the module
    except Exception as error:  # a user's module may raise whatever it likes
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(
            f"{error.name}."
        ):
            reason = f"there is no module {error.name}, neither in this folder nor installed"
        else:
            reason = f"module {module_name} cannot be loaded: {describe_error(error)}"
            reason += _find_line(error, here)
        raise refuse(reference, option, reason) from error
    if not hasattr(module, name):
        raise refuse(reference, option, f"module {module_name} has no {name}")
    return getattr(module, name)


def _find_line(error: Exception, here: str) -> str:
    """The last line of the user's own files that the error came through, if it names none."""
    if isinstance(error, SyntaxError | TaskDeclarationError):
        return ""
    own = [
        f" ({Path(frame.filename).name}, line {frame.lineno})"
        for frame in extract_tb(error.__traceback__)
        if frame.filename.startswith(here) and "site-packages" not in frame.filename
    ]
    return own[-1] if own else ""


def refuse(reference: str, option: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f'Invalid {option} "{reference}": {reason}', {"field": option, "reason": reason}
    )


LOOKED_EVERY = timedelta(milliseconds=500)

Mark = tuple[int, int]


class FileWatch:
    """Watches files for changes since it was made, or since the last reported change."""

    def __init__(self, list_files: Callable[[], Collection[Path]], clock: Clock) -> None:
        self._list_files = list_files
        self._clock = clock
        self._marks = read_marks(list_files())

    async def wait_for_change(self) -> set[Path]:
        """Wait until files are changed, added or removed, and return them."""
        while True:
            await self._clock.sleep(LOOKED_EVERY)
            before, after = self._marks, read_marks({*self._list_files(), *self._marks})
            changed = {path for path, mark in after.items() if before.get(path) != mark}
            if changed:
                self._marks = after
                return changed


def read_marks(files: Collection[Path]) -> Mapping[Path, Mark | None]:
    """Modification time and size of each file; None for one that does not exist."""
    return {path: _read_mark(path) for path in files}


def _read_mark(path: Path) -> Mark | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


HANDLERS = "--handlers"
TASKS = "--tasks"

Registration: TypeAlias = Callable[[Worker], object]
"""Gives a worker its handlers."""


@runtime_checkable
class ServedApp(Protocol):
    """An app, as far as a process that runs it needs it."""

    def register(self, worker: Worker) -> None:
        """Give a worker the handlers of all tasks."""
        ...

    def adapt(self, settings: WorkerSettings) -> WorkerSettings:
        """The settings of a worker, with what the app adds to each run."""
        ...

    def list_checks(self) -> Mapping[str, Callable[[Any], object]]:
        """For each kind, a function that refuses a payload that does not fit."""
        ...

    def serving(self, store: OpenStore, clock: Clock) -> AbstractAsyncContextManager[object]:
        """The app is open on this store while the context lasts."""
        ...


@dataclass(frozen=True)
class AppRegistration:
    """Gives a worker the tasks of an app."""

    app: ServedApp

    def __call__(self, worker: Worker) -> None:
        self.app.register(worker)


def list_apps(registrations: Collection[Registration]) -> list[ServedApp]:
    """The apps among what was loaded."""
    return [it.app for it in registrations if isinstance(it, AppRegistration)]


def load_handlers(references: Collection[str]) -> list[Registration]:
    """The handlers that the references name, checked as far as possible without a worker."""
    return [_load_one(reference) for reference in references]


def read_registrations(reference: str) -> list[Any]:
    """The declarative tasks at ``module:name``: a list, or a function that returns one.

    The scheduler checks the contents of the list.
    """
    found = load_reference(reference, TASKS)
    registrations = found() if callable(found) else found
    if not isinstance(registrations, list | tuple):
        raise refuse(reference, TASKS, "it is neither a list nor a function that returns one")
    return list(registrations)


def register_handlers(
    worker: Worker,
    registrations: Collection[Registration],
    built_in: Mapping[str, Work],
    kinds: Collection[str] | None = None,
) -> None:
    """Register the user's handlers, and built-in ones for the kinds that have none.

    With ``kinds``, the worker keeps the handlers of these only; each must have one.
    """
    for register in registrations:
        register(worker)
    for kind in built_in.keys() - worker.kinds:
        worker.handler(kind)(built_in[kind])
    if kinds is None:
        return
    for kind in kinds:
        if kind not in worker.kinds:
            known = ", ".join(sorted(worker.kinds)) or "none"
            raise invalid("--kinds", f'"{kind}" has no handler here; those that have one: {known}')
    worker.limit_to(kinds)


def list_watched_files(references: Collection[str]) -> set[Path]:
    """The files of the named modules, and of all loaded modules of their packages."""
    roots = {reference.partition(":")[0].partition(".")[0] for reference in references}
    modules = [
        module for name, module in tuple(sys.modules.items()) if name.partition(".")[0] in roots
    ]
    files = (getattr(module, "__file__", None) for module in modules)
    return {Path(file) for file in files if file is not None}


def reload_handlers(references: Collection[str]) -> list[Registration]:
    """Load the handlers again from their files. When that fails, the old modules stay."""
    roots = {reference.partition(":")[0].partition(".")[0] for reference in references}
    kept = {name: it for name, it in sys.modules.items() if name.partition(".")[0] in roots}
    for name in kept:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        return load_handlers(references)
    except InvalidInputError:
        sys.modules.update(kept)
        raise


def _load_one(reference: str) -> Registration:
    found = load_reference(reference, HANDLERS)
    if inspect.isroutine(found) and _argument_count(found) == 0:
        found = found()
    if isinstance(found, ServedApp):
        return AppRegistration(found)
    if isinstance(found, Registry):
        return _from_registry(found)
    if isinstance(found, Mapping):
        return _from_mapping(reference, found)
    if callable(found) and _argument_count(found) == 1:
        register: Registration = found
        return register
    raise refuse(
        reference,
        HANDLERS,
        "it must be an app, a mapping of kinds to functions, a Registry, or a function of a worker",
    )


def _argument_count(function: Callable[..., Any]) -> int | None:
    """The number of required arguments; None when it is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(it.kind in named and it.default is inspect.Parameter.empty for it in parameters)


def _from_mapping(reference: str, works: Mapping[Any, Any]) -> Registration:
    try:
        return _from_registry(Registry(works, ()))
    except InvalidInputError as error:
        raise refuse(reference, HANDLERS, error.message) from error


def _from_registry(registry: Mapping[str, Handler]) -> Registration:
    def register(worker: Worker) -> None:
        for kind, handler in registry.items():
            worker.register(kind, handler)

    return register
