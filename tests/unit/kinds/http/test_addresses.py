"""Which addresses are public, and which lead inwards."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import ForbiddenAddressError
from rota.kinds.network import (
    NOT_PUBLIC_4,
    NOT_PUBLIC_6,
    PUBLIC_6,
    HttpRules,
    is_public,
    is_within,
    read_address,
)

STEADY = settings(deadline=None, derandomize=True)
any_4 = st.ip_addresses(v=4).map(lambda it: IPv4Address(str(it)))
any_6 = st.ip_addresses(v=6).map(lambda it: IPv6Address(str(it)))


def in_one_of(networks: tuple[str, ...]) -> "st.SearchStrategy[IPv4Address | IPv6Address]":
    return st.sampled_from(networks).flatmap(lambda it: st.ip_addresses(network=it))


WRAPPERS = {
    "mapped": "::ffff:0:0",
    "compatible": "::",
    "translated": "::ffff:0:0:0",
    "NAT64": "64:ff9b::",
    "local NAT64": "64:ff9b:1::",
}


@STEADY
@given(in_one_of(tuple(map(str, (*NOT_PUBLIC_4, *NOT_PUBLIC_6)))))
def test_nothing_in_a_special_network_is_public(address: IPv4Address | IPv6Address) -> None:
    assert not is_public(address)


@STEADY
@given(any_4, st.sampled_from(sorted(WRAPPERS)))
def test_no_ipv4_address_is_public_in_the_clothes_of_ipv6(inner: IPv4Address, how: str) -> None:
    wrapped = IPv6Address(int(IPv6Address(WRAPPERS[how])) | int(inner))
    assert not is_public(wrapped)


@STEADY
@given(any_4)
def test_no_ipv4_address_is_public_through_a_tunnel(inner: IPv4Address) -> None:
    six_to_four = IPv6Address((0x2002 << 112) | (int(inner) << 80) | 1)
    teredo = IPv6Address((0x20010000 << 96) | (~int(inner) & 0xFFFFFFFF))
    assert six_to_four.sixtofour == inner
    assert not is_public(six_to_four)
    assert not is_public(teredo)


@STEADY
@given(st.one_of(any_4, any_6))
def test_nothing_is_public_that_has_another_use(address: IPv4Address | IPv6Address) -> None:
    special = (
        address.is_private, address.is_loopback, address.is_link_local, address.is_multicast,
        address.is_reserved, address.is_unspecified,
    )  # fmt: skip
    if any(special):
        assert not is_public(address)


@STEADY
@given(any_6)
def test_of_ipv6_only_what_is_assigned_is_public(address: IPv6Address) -> None:
    assert address in PUBLIC_6 or not is_public(address)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.1", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
        "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.31.255.255", "192.0.0.192",
        "192.0.2.1", "192.168.0.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1",
        "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::a00:1",
        "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
        "2001:db8::1", "2002:7f00:1::", "3fff::1", "2606:4700::1%eth0",
    ],
)  # fmt: skip
def test_an_address_that_leads_inwards_is_not_public(text: str) -> None:
    assert not is_public(read_address(text))


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.167.255.255", "2606:4700:4700::1111"]
)
def test_a_routable_address_is_public(text: str) -> None:
    assert is_public(read_address(text))


def test_a_network_that_is_allowed_does_not_reach_through_ipv6() -> None:
    networks = (ip_network("10.0.0.0/8"),)
    assert is_within(read_address("10.1.2.3"), networks)
    assert not is_within(read_address("::ffff:10.1.2.3"), networks)


@STEADY
@given(in_one_of(tuple(map(str, NOT_PUBLIC_4))), st.integers(0, 3))
def test_one_address_that_leads_inwards_is_one_too_many(
    bad: IPv4Address | IPv6Address, place: int
) -> None:
    addresses = [read_address("1.1.1.1"), read_address("8.8.8.8"), read_address("9.9.9.9")]
    rules = HttpRules()
    rules.check_addresses("hooks.example.com", addresses)
    with pytest.raises(ForbiddenAddressError) as caught:
        rules.check_addresses("hooks.example.com", [*addresses[:place], bad, *addresses[place:]])
    assert str(bad) not in caught.value.message
