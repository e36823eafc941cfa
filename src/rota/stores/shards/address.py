"""The address of a sharded store: named addresses of ordinary stores, the home shard first."""

import re
import tomllib
from pathlib import Path
from typing import Any

from rota.errors import InvalidStoreUrlError
from rota.stores.shards import PREFIX

EXAMPLE = "shards:one=postgresql://a.example/rota|two=postgresql://b.example/rota"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_FEWEST = 2


def read_address(url: str) -> dict[str, str]:
    """The addresses of the shards by name, in order. Raises InvalidStoreUrlError.

    ``shards:one=ADDRESS|two=ADDRESS`` lists them; a ``|`` inside an address is written ``%7C``.
    ``shards:///relative.toml`` and ``shards:////absolute.toml`` name a file whose table ``shards``
    has a line ``one = "ADDRESS"`` for each: that keeps passwords out of command lines.
    """
    rest = url.removeprefix(PREFIX)
    pairs = _read_file(url, rest) if rest.startswith("//") else _read_list(url, rest)
    shards: dict[str, str] = {}
    for name, address in pairs:
        _check_shard(url, name, address, shards)
        shards[name] = address
    if len(shards) < _FEWEST:
        raise InvalidStoreUrlError(url, f"name at least two shards: {EXAMPLE}")
    return shards


def _read_list(url: str, rest: str) -> list[tuple[str, Any]]:
    pairs = [part.partition("=") for part in rest.split("|")]
    for name, separator, _ in pairs:
        if not separator or _NAME.fullmatch(name) is None:
            raise InvalidStoreUrlError(
                url,
                f'"{name.partition(":")[0][:40]}" is not a name followed by =; '
                f"write name=address, with | between shards: {EXAMPLE}",
            )
    return [(name, address) for name, _, address in pairs]


def _read_file(url: str, rest: str) -> list[tuple[str, Any]]:
    path = Path(rest.removeprefix("///"))
    if not rest.startswith("///") or not path.name:
        raise InvalidStoreUrlError(
            url, "write shards:///relative.toml or shards:////absolute/path.toml"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("shards")
    except OSError as error:
        raise InvalidStoreUrlError(url, f"the file cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidStoreUrlError(url, f"the file is not TOML: {error}") from error
    if not isinstance(table, dict):
        raise InvalidStoreUrlError(url, 'the file has no table [shards] with name = "address"')
    return list(table.items())


def _check_shard(url: str, name: str, address: object, others: dict[str, str]) -> None:
    if _NAME.fullmatch(name) is None:
        raise InvalidStoreUrlError(
            url,
            f'"{name[:40]}" is not a name of a shard; use letters, digits, - and _ (at most 32)',
        )
    if not isinstance(address, str) or not address:
        raise InvalidStoreUrlError(url, f'the address of shard "{name}" is missing')
    if address.startswith(PREFIX):
        raise InvalidStoreUrlError(url, f'shard "{name}" is itself sharded; name an ordinary store')
    if name in others:
        raise InvalidStoreUrlError(url, f'two shards have the name "{name}"')
    twin = next((each for each, known in others.items() if known == address), None)
    if twin is not None and not address.startswith("memory:"):
        raise InvalidStoreUrlError(url, f'shards "{twin}" and "{name}" have the same address')
