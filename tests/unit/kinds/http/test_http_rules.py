"""Where requests may go, as the operator says."""

from ipaddress import ip_network

import pytest

from rota.errors import ForbiddenAddressError, InvalidConfigurationError, InvalidPayloadError
from rota.kinds import HttpRules, read_http_rules
from rota.kinds.network import read_address


def test_without_a_word_of_the_operator_only_https_on_its_port_is_allowed() -> None:
    rules = read_http_rules({})
    assert rules == HttpRules()
    rules.check_target("https", 443)
    for scheme, port in (("http", 80), ("https", 22), ("https", 8443), ("ftp", 443), ("", 443)):
        with pytest.raises(InvalidPayloadError) as caught:
            rules.check_target(scheme, port)
        assert caught.value.field == "url"


def test_the_environment_opens_hosts_networks_ports_and_plain_http() -> None:
    rules = read_http_rules(
        {
            "ROTA_HTTP_ALLOW": "Hooks.Internal, 10.1.0.0/16 fd00::/8,192.168.7.9",
            "ROTA_HTTP_PORTS": "443,8443",
            "ROTA_HTTP_PLAIN": "1",
        }
    )
    assert rules.hosts == {"hooks.internal"}
    assert rules.networks == tuple(map(ip_network, ("10.1.0.0/16", "fd00::/8", "192.168.7.9/32")))
    rules.check_target("https", 8443)
    rules.check_target("http", 80)
    for scheme, port in (("http", 81), ("https", 80), ("gopher", 80)):
        with pytest.raises(InvalidPayloadError):
            rules.check_target(scheme, port)


def test_only_allowed_addresses_can_be_reached() -> None:
    rules = read_http_rules({"ROTA_HTTP_ALLOW": "hooks.internal 10.1.0.0/16"})
    inside, beside = read_address("10.1.2.3"), read_address("10.2.0.1")
    rules.check_addresses("elsewhere.example.com", [inside])
    rules.check_addresses("hooks.internal", [beside, read_address("127.0.0.1")])
    with pytest.raises(ForbiddenAddressError):
        rules.check_addresses("elsewhere.example.com", [inside, beside])
    with pytest.raises(ForbiddenAddressError):
        rules.check_addresses("sub.hooks.internal", [beside])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ROTA_HTTP_ALLOW", "10.0.0.0/33"),
        ("ROTA_HTTP_ALLOW", "10.0.0.1/8"),
        ("ROTA_HTTP_ALLOW", "10.0.0"),
        ("ROTA_HTTP_ALLOW", "https" + "://hooks.internal"),
        ("ROTA_HTTP_ALLOW", "*.internal"),
        ("ROTA_HTTP_PORTS", "443,https"),
        ("ROTA_HTTP_PORTS", "0"),
        ("ROTA_HTTP_PORTS", "65536"),
        ("ROTA_HTTP_PORTS", "443000000000"),
        ("ROTA_HTTP_PLAIN", "perhaps"),
    ],
)
def test_an_invalid_rule_is_named(name: str, text: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        read_http_rules({name: text})
    assert list(caught.value.problems) == [name]
