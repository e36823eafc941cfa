"""Secrets by name, from the environment or from files; never from a payload.

A secret belongs to a tenant: whoever could have messages signed with another's secret could speak
in their name.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rota.errors import InvalidConfigurationError, SecretNotFoundError
from rota.kinds.signing import MOST_SECRETS, SHORTEST_SECRET

VARIABLE_PREFIX = "ROTA_SECRET_"
FOLDER_VARIABLE = "ROTA_SECRETS_DIR"
DEFAULT_TENANT = "default"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)

_TENANT = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,199}", re.ASCII)
_LARGEST_FILE = 4_096


class Keyring:
    """Finds secrets, each time anew: one that is replaced is used from the next message on.

    The file ``<folder>/<tenant>/<name>`` holds one secret or, while it is being replaced, two, in
    lines of their own. Those of the tenant ``default`` may be in variables instead, such as
    ``ROTA_SECRET_BILLING`` for ``billing``, separated by spaces.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def __repr__(self) -> str:
        return "<Keyring>"

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The one or two secrets of that name; SecretNotFoundError when there is none."""
        text = self._read_file(tenant, name) or self._read_variable(tenant, name)
        secrets = tuple(text.split())
        if not secrets:
            raise SecretNotFoundError(tenant, name)
        if len(secrets) > MOST_SECRETS or any(len(it) < SHORTEST_SECRET for it in secrets):
            raise InvalidConfigurationError(
                {
                    f"secret {name}": f"must be one or two texts without spaces, each of at least "
                    f"{SHORTEST_SECRET} characters"
                }
            )
        return secrets

    def _read_variable(self, tenant: str, name: str) -> str:
        if tenant != DEFAULT_TENANT:
            return ""
        return self._environ.get(VARIABLE_PREFIX + name.upper().replace("-", "_"), "")

    def _read_file(self, tenant: str, name: str) -> str:
        folder = self._environ.get(FOLDER_VARIABLE, "")
        if not folder or not NAME.fullmatch(name) or not _TENANT.fullmatch(tenant):
            return ""
        try:
            with Path(folder, tenant, name).open(encoding="utf-8") as file:
                return file.read(_LARGEST_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfigurationError({f"secret {name}": "cannot be read"}) from error
