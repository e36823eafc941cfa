"""A plugin of pytest that loads one module of Rota with a small mistake in it.

``ROTA_MUTANT`` names the module and the number of the change: ``rota.jobs.retry:3``.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

from tests.verification.mutation.changes import make_change


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


def install(chosen: str) -> None:
    """Load the module with its change from now on."""
    module, _, number = chosen.partition(":")
    if module in sys.modules:
        raise RuntimeError(f"{module} is loaded already")
    sys.meta_path.insert(0, ChangedModules(module, int(number)))


if "ROTA_MUTANT" in os.environ:
    install(os.environ["ROTA_MUTANT"])
