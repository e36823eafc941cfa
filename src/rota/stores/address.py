"""What all addresses of stores have in common: how to show one."""

import re
from functools import lru_cache


@lru_cache(maxsize=64)
def masked(url: str, plain: re.Pattern[str] | None = None) -> str:
    """The address without options and passwords, which it may hold in both parts.

    A password may contain a ? or # that is not escaped: then all up to the @ may be the password,
    unless it is ``plain``, servers and a database. Without that pattern no database is shown then.
    """
    scheme, _, rest = url.partition("://")
    server, *options = re.split(r"[?#]", rest, maxsplit=1)
    is_plain = plain is not None and plain.fullmatch(server) is not None
    if "@" not in server and "@" in "".join(options) and not is_plain:
        return f"{scheme}://{re.split('[:/]' if plain is None else ':', server, maxsplit=1)[0]}"
    credentials, at, place = server.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}{at}{place}"
