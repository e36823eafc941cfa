"""Names that a package offers, imported from its modules when they are first used.

So a program that needs one module of a package does not load the others. Type checkers read the
package's ``__init__.pyi``.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def offer(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, from the module of every name it offers."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
