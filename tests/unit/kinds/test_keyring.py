"""Secrets by name."""

from pathlib import Path

import pytest

from rota.errors import InvalidConfigurationError, SecretNotFoundError
from rota.kinds import Keyring

FIRST, SECOND = "0123456789abcdef", "fedcba9876543210"


def keep(folder: Path, tenant: str, name: str, text: str) -> Keyring:
    (folder / tenant).mkdir(parents=True, exist_ok=True)
    (folder / tenant / name).write_text(text, encoding="utf-8")
    return Keyring({"ROTA_SECRETS_DIR": str(folder)})


def test_a_secret_of_the_default_tenant_may_be_in_a_variable() -> None:
    ring = Keyring({"ROTA_SECRET_BILLING_EU": f"{FIRST} {SECOND}"})
    assert ring.find("default", "billing-eu") == (FIRST, SECOND)
    with pytest.raises(SecretNotFoundError):
        ring.find("guild-7", "billing-eu")


def test_a_secret_in_a_file_is_its_tenants_alone(tmp_path: Path) -> None:
    ring = keep(tmp_path, "guild-7", "billing", f"{FIRST}\n{SECOND}\n")
    assert ring.find("guild-7", "billing") == (FIRST, SECOND)
    for tenant in ("guild-8", "default"):
        with pytest.raises(SecretNotFoundError):
            ring.find(tenant, "billing")


def test_a_secret_that_is_replaced_is_used_at_once(tmp_path: Path) -> None:
    ring = keep(tmp_path, "guild-7", "billing", FIRST)
    assert ring.find("guild-7", "billing") == (FIRST,)
    keep(tmp_path, "guild-7", "billing", SECOND)
    assert ring.find("guild-7", "billing") == (SECOND,)


@pytest.mark.parametrize("tenant", ["..", ".", "../guild-7", "guild-7/..", "", "guild-7\0"])
@pytest.mark.parametrize("name", ["billing", "../billing", "guild-7/billing", "..", ""])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, tenant: str, name: str) -> None:
    ring = keep(tmp_path, "guild-7", "billing", FIRST)
    keep(tmp_path, ".", "billing", FIRST)
    with pytest.raises(SecretNotFoundError):
        ring.find(tenant, name)


@pytest.mark.parametrize("text", ["short", f"{FIRST} {SECOND} {FIRST}x", f"{FIRST} tiny"])
def test_an_invalid_secret_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    ring = keep(tmp_path, "guild-7", "billing", text)
    with pytest.raises(InvalidConfigurationError) as caught:
        ring.find("guild-7", "billing")
    assert FIRST not in str(caught.value)
    assert "billing" in str(caught.value)


def test_a_file_that_cannot_be_read_is_not_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "guild-7" / "billing").mkdir(parents=True)
    ring = Keyring({"ROTA_SECRETS_DIR": str(tmp_path)})
    with pytest.raises(InvalidConfigurationError):
        ring.find("guild-7", "billing")


def test_a_keyring_shows_nothing_of_what_it_holds() -> None:
    assert FIRST not in repr(Keyring({"ROTA_SECRET_BILLING": FIRST}))
