"""Handlers that a user names, and how a worker comes by them.

A name may stand for a mapping of kinds to functions, for a ``Registry``, for a function without
arguments that returns either, or for a function of one argument, which is given the worker and says
``@worker.handler(...)`` itself.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rota.errors import InvalidInputError
from rota.house.loading.references import load_reference, refuse
from rota.worker import Worker
from rota.worker.registry import Handler, Registry, Work

OPTION = "--handlers"

Registration: TypeAlias = Callable[[Worker], None]
"""Gives a worker its handlers."""


def load_handlers(references: Collection[str]) -> list[Registration]:
    """What the references name, each checked as far as it can be without a worker."""
    return [_load_one(reference) for reference in references]


def register_handlers(
    worker: Worker, registrations: Collection[Registration], built_in: Mapping[str, Work]
) -> None:
    """Give the worker the user's handlers, and the built-in ones of kinds that have none."""
    for register in registrations:
        register(worker)
    for kind in built_in.keys() - worker.kinds:
        worker.handler(kind)(built_in[kind])


def list_watched_files(references: Collection[str]) -> set[Path]:
    """The files of the modules that are named, and of all loaded modules of their packages."""
    roots = {reference.partition(":")[0].partition(".")[0] for reference in references}
    modules = [
        module for name, module in tuple(sys.modules.items()) if name.partition(".")[0] in roots
    ]
    files = (getattr(module, "__file__", None) for module in modules)
    return {Path(file) for file in files if file is not None}


def reload_handlers(references: Collection[str]) -> list[Registration]:
    """As ``load_handlers``, from files as they are now; when that fails, all is as before."""
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
    found = load_reference(reference, OPTION)
    if inspect.isroutine(found) and _argument_count(found) == 0:
        found = found()
    if isinstance(found, Registry):
        return _from_registry(found)
    if isinstance(found, Mapping):
        return _from_mapping(reference, found)
    if callable(found) and _argument_count(found) == 1:
        return _from_function(found)
    raise refuse(
        reference,
        OPTION,
        "it is no mapping of kinds to functions, no Registry, and no function of a worker",
    )


def _argument_count(function: Callable[..., Any]) -> int | None:
    """How many arguments it must be given; None where nobody can say."""
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
        raise refuse(reference, OPTION, error.message) from error


def _from_registry(registry: Mapping[str, Handler]) -> Registration:
    def register(worker: Worker) -> None:
        for kind, handler in registry.items():
            worker.handler(kind, notifies=handler.notifies, timeout=handler.timeout)(handler.work)

    return register


def _from_function(function: Callable[[Worker], object]) -> Registration:
    def register(worker: Worker) -> None:
        function(worker)

    return register
