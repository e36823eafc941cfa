"""Things in Python modules that are named on the command line as ``module:name``."""

import importlib
import sys
from pathlib import Path
from typing import Any

from rota.errors import InvalidInputError


def load_reference(reference: str, option: str) -> Any:
    """What ``module:name`` names; refused in the name of ``option`` when there is no such thing.

    Modules are looked for in the working directory first, as Python itself does. An error that the
    module raises while it is loaded is the reason that is given.
    """
    module_name, separator, name = reference.partition(":")
    if not separator or not module_name or not name:
        raise refuse(reference, option, "write it as module:name, such as myapp.tasks:everything")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise refuse(reference, option, f"there is no module {error.name}") from error
    except Exception as error:  # a user's module may raise whatever it likes
        reason = f"module {module_name} cannot be loaded: {type(error).__name__}: {error}"
        raise refuse(reference, option, reason) from error
    if not hasattr(module, name):
        raise refuse(reference, option, f"module {module_name} has no {name}")
    return getattr(module, name)


def refuse(reference: str, option: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f'Invalid {option} "{reference}": {reason}', {"field": option, "reason": reason}
    )
