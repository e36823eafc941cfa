"""Registrations that a user names on the command line as ``module:name``."""

import importlib
import sys
from pathlib import Path
from typing import Any

from rota.errors import InvalidInputError


def read_registrations(reference: str) -> list[Any]:
    """The list at ``module:name``, or what the function of that name returns.

    Modules are looked for in the working directory first, as Python itself does. What the list
    holds is checked by the scheduler.
    """
    module_name, separator, name = reference.partition(":")
    if not separator or not module_name or not name:
        raise _refused(reference, "write it as module:name, such as myapp.tasks:registrations")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _refused(reference, f"there is no module {error.name}") from error
    if not hasattr(module, name):
        raise _refused(reference, f"module {module_name} has no {name}")
    found = getattr(module, name)
    registrations = found() if callable(found) else found
    if not isinstance(registrations, list | tuple):
        raise _refused(reference, "it is neither a list nor a function that returns one")
    return list(registrations)


def _refused(reference: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f'Invalid --tasks "{reference}": {reason}', {"field": "--tasks", "reason": reason}
    )
