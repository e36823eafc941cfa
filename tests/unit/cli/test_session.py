"""Where a command finds what it is about, by options and by the environment."""

from pathlib import Path

import pytest

from rota.cli.session import TenantSession, name_user
from rota.client import ServerAddress, StoreAddress
from rota.errors import InvalidInputError

TOKEN = "rota_" + "x" * 49
SERVER = "http://127.0.0.1:8080"


def test_without_a_word_it_is_the_file_in_the_working_directory() -> None:
    address = TenantSession().find_target({}).find_address()
    assert isinstance(address, StoreAddress)
    assert (address.url, address.tenant) == ("sqlite:///rota.db", "default")


def test_the_environment_names_a_store_or_a_server() -> None:
    store = TenantSession(tenant="guild-7").find_target({"ROTA_STORE": "memory://"}).find_address()
    assert isinstance(store, StoreAddress)
    assert (store.url, store.tenant) == ("memory://", "guild-7")
    both = {"ROTA_STORE": "memory://", "ROTA_URL": SERVER, "ROTA_TOKEN": f" {TOKEN}\n"}
    server = TenantSession().find_target(both).find_address()
    assert isinstance(server, ServerAddress)
    assert server.token is not None
    assert (server.url, server.token.reveal()) == (SERVER, TOKEN)


def test_options_override_the_environment() -> None:
    address = TenantSession(store="memory://").find_target({"ROTA_URL": SERVER}).find_address()
    assert isinstance(address, StoreAddress)


def test_a_token_comes_from_a_file_and_is_shown_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    address = (
        TenantSession(url=SERVER, token_file=file)
        .find_target({"ROTA_TOKEN": "another"})
        .find_address()
    )
    assert isinstance(address, ServerAddress)
    assert address.token is not None
    assert address.token.reveal() == TOKEN
    assert TOKEN not in repr(address)


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (TenantSession(store="memory://", url=SERVER), "--url and --store are both given"),
        (TenantSession(url=SERVER, tenant="guild-7"), "--tenant is for a store"),
        (TenantSession(token_file=Path("token")), "--token-file is for a server"),
        (
            TenantSession(url=SERVER, token_file=Path("nowhere")),
            'Cannot read "nowhere": No such file',
        ),
        (TenantSession(url="ftp://rota.example"), "write it as http://"),
        (
            TenantSession(url="https://ada:secret@rota.example"),
            "it must not hold a name or a password",
        ),
        (TenantSession(url=f"{SERVER}?token=x"), "it must not hold ? or #"),
    ],
)
def test_contradictions_are_refused(session: TenantSession, reason: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        session.find_target({}).find_address()
    assert reason in refused.value.message
    assert "secret" not in refused.value.message


def test_an_invalid_token_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as refused:
        TenantSession(url=SERVER).find_target({"ROTA_TOKEN": "two words"})
    assert refused.value.message == "ROTA_TOKEN does not hold a token"


def test_a_caller_without_a_name_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError

    monkeypatch.setattr("getpass.getuser", fail)
    assert name_user() == "command line"
