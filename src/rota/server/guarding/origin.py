"""Where a request comes from, as far as a browser tells: its host, and the page that sent it."""

from collections.abc import Sequence

from rota.errors import CrossSiteRequestError, UnknownHostError

Headers = Sequence[tuple[bytes, bytes]]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def find_header(headers: Headers, name: bytes) -> bytes | None:
    """The first header of that name, which is given in lower case."""
    for each, value in headers:
        if each == name:
            return value
    return None


def check_host(headers: Headers, hosts: frozenset[str] | None) -> None:
    """Refuse a request for a host that is none of ours.

    A page of anywhere can have its own name lead to this host, and then read what it answers: the
    browser takes the two for one. The name is still that of the page.
    """
    if hosts is None:
        return
    host = (find_header(headers, b"host") or b"").decode("latin-1")
    if _without_port(host).lower() not in hosts:
        raise UnknownHostError(host[:100])


def check_origin(method: str, headers: Headers) -> None:
    """Refuse a change that a page of somebody else had a browser send.

    Browsers say where a request comes from, and no page can make them lie. A token in a header is
    exempt, for browsers add none by themselves. Programs that are no browsers say nothing, and have
    no cookies either: with a cookie and without a word about its origin nothing is changed.
    """
    if method in _SAFE or find_header(headers, b"authorization") is not None:
        return
    site = find_header(headers, b"sec-fetch-site")
    origin = find_header(headers, b"origin")
    if site is not None:
        is_ours = site == b"same-origin"
    elif origin is not None:
        is_ours = _is_same_host(origin, find_header(headers, b"host"))
    else:
        is_ours = find_header(headers, b"cookie") is None
    if not is_ours:
        raise CrossSiteRequestError


def _is_same_host(origin: bytes, host: bytes | None) -> bool:
    scheme, _, named = origin.partition(b"://")
    return host is not None and scheme in {b"http", b"https"} and named.lower() == host.lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
