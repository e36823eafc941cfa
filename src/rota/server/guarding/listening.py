"""How a server on a socket is to be run, so that nobody can tire it out."""

from typing import Any, Final

SERVER_OPTIONS: Final[dict[str, Any]] = {
    "limit_concurrency": 1_000,
    "backlog": 2_048,
    "timeout_keep_alive": 20,
    "h11_max_incomplete_event_size": 32_768,
    "server_header": False,
    "ws": "none",
    "http": "h11",
    "proxy_headers": False,
}
"""What to give ``uvicorn.Config``: so many connections at once, so long an idle one is kept, so
many bytes of headers, nothing said about the program, no other protocols.

``http`` is h11 because it alone limits the size of headers. Who runs the server behind a proxy
sets ``proxy_headers`` and ``forwarded_allow_ips`` to the proxy's own address: whoever else may
name the address a request comes from escapes the limits on it.
"""
