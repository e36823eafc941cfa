"""Which addresses a service may listen on."""

from ipaddress import ip_address

from rota.errors import InvalidInputError, UnguardedAddressError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a browser on this host calls it; every other name was brought in by somebody else."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this host reach the address; ``localhost`` is the only name for it.

    Any other name is taken for a public one: what it stands for is decided by a name server.
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
    """Refuse to listen where others come in, when nobody would be asked for a token."""
    if not host:
        raise InvalidInputError("host must not be empty", {"field": "host", "value": host})
    if not has_auth and not is_loopback(host):
        raise UnguardedAddressError(host)
