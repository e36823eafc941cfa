"""Where a command finds what it is about, by options and by the environment."""

from pathlib import Path

import pytest

from rota.cli.connection import find_address
from rota.cli.place import Place, name_user
from rota.client import ServerAddress, StoreAddress
from rota.errors import InvalidInputError

TOKEN = "rota_" + "x" * 49
SERVER = "http://127.0.0.1:8080"


def test_without_a_word_it_is_the_file_in_the_working_directory() -> None:
    address = find_address(Place(), {})
    assert isinstance(address, StoreAddress)
    assert (address.url, address.tenant) == ("sqlite:///rota.db", "default")


def test_the_environment_names_a_store_or_a_server() -> None:
    store = find_address(Place(tenant="guild-7"), {"ROTA_STORE": "memory://"})
    assert isinstance(store, StoreAddress)
    assert (store.url, store.tenant) == ("memory://", "guild-7")
    both = {"ROTA_STORE": "memory://", "ROTA_URL": SERVER, "ROTA_TOKEN": f" {TOKEN}\n"}
    server = find_address(Place(), both)
    assert isinstance(server, ServerAddress)
    assert server.token is not None
    assert (server.url, server.token.reveal()) == (SERVER, TOKEN)


def test_options_override_the_environment() -> None:
    address = find_address(Place(store="memory://"), {"ROTA_URL": SERVER})
    assert isinstance(address, StoreAddress)


def test_a_token_comes_from_a_file_and_is_shown_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    address = find_address(Place(url=SERVER, token_file=file), {"ROTA_TOKEN": "another"})
    assert isinstance(address, ServerAddress)
    assert address.token is not None
    assert address.token.reveal() == TOKEN
    assert TOKEN not in repr(address)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (Place(store="memory://", url=SERVER), "--url and --store are both given"),
        (Place(url=SERVER, tenant="guild-7"), "--tenant is for a store"),
        (Place(token_file=Path("token")), "--token-file is for a server"),
        (Place(url=SERVER, token_file=Path("nowhere")), 'Cannot read "nowhere": No such file'),
        (Place(url="ftp://rota.example"), "write it as http://"),
        (Place(url="https://ada:secret@rota.example"), "it must not hold a name or a password"),
        (Place(url=f"{SERVER}?token=x"), "it must not hold ? or #"),
    ],
)
def test_contradictions_are_refused(place: Place, reason: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        find_address(place, {})
    assert reason in refused.value.message
    assert "secret" not in refused.value.message


def test_an_invalid_token_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as refused:
        find_address(Place(url=SERVER), {"ROTA_TOKEN": "two words"})
    assert refused.value.message == "ROTA_TOKEN does not hold a token"


def test_a_caller_without_a_name_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError

    monkeypatch.setattr("getpass.getuser", fail)
    assert name_user() == "command line"
