"""Which addresses a service may listen on."""

from ipaddress import ip_address

from rota.errors import InvalidInputError, UnguardedAddressError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""The names of this host in a local browser. Any other Host header comes from elsewhere."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this host can reach the address.

    Every name except ``localhost`` counts as public, because a name server resolves it.
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (address if mapped is None else mapped).is_loopback


def check_binding(host: str, *, has_auth: bool) -> None:
    """Refuse to listen on a public address without authentication."""
    if not host:
        raise InvalidInputError("host must not be empty", {"field": "host", "value": host})
    if not has_auth and not is_loopback(host):
        raise UnguardedAddressError(host)
