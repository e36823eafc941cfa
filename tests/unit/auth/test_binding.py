"""Where a service may listen."""

import pytest

from rota.auth.binding import check_binding, is_loopback
from rota.errors import InvalidInputError, UnguardedAddressError

LOOPBACK = ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1", "[::1]", "::ffff:127.0.0.1"]
PUBLIC = ["0.0.0.0", "::", "[::]", "192.168.1.5", "10.0.0.1", "8.8.8.8", "rota.example"]  # noqa: S104 - refused here
STRANGE = ["localhost.example", "127.0.0.1.example", "127.1", "0x7f000001", "2130706433", "fe80::1"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_may_be_open(host: str) -> None:
    assert is_loopback(host)
    check_binding(host, has_auth=False)


@pytest.mark.parametrize("host", PUBLIC + STRANGE)
def test_every_other_address_needs_tokens(host: str) -> None:
    assert not is_loopback(host)
    check_binding(host, has_auth=True)
    with pytest.raises(UnguardedAddressError, match="no token would be required") as caught:
        check_binding(host, has_auth=False)
    assert caught.value.details == {"field": "host", "value": host}


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="host must not be empty"):
        check_binding("", has_auth=True)
