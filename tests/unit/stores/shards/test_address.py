"""Addresses of sharded stores."""

from pathlib import Path

import pytest

from rota.errors import InvalidStoreUrlError
from rota.runtime.wiring import check_address, is_missing
from rota.stores.shards.address import read_address


def test_a_list_names_shards_in_order() -> None:
    address = "shards:one=postgresql://u:p=w@a/db?schema=x|two=redis://b:6379/0?name=rota-2"
    assert list(read_address(address).items()) == [
        ("one", "postgresql://u:p=w@a/db?schema=x"),
        ("two", "redis://b:6379/0?name=rota-2"),
    ]


def test_a_file_names_shards_in_order(tmp_path: Path) -> None:
    file = tmp_path / "shards.toml"
    file.write_text('[shards]\nzeta = "sqlite:///z.db"\nalpha = "sqlite:///a|b.db"\n')
    assert list(read_address(f"shards:///{file}")) == ["zeta", "alpha"]
    assert read_address(f"shards:///{file}")["alpha"] == "sqlite:///a|b.db"


def test_a_relative_file_is_read_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shards.toml").write_text('[shards]\na = "memory://"\nb = "memory://"\n')
    monkeypatch.chdir(tmp_path)
    assert list(read_address("shards:///shards.toml")) == ["a", "b"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("shards:", "name followed by ="),
        ("shards:one=memory://", "at least two"),
        ("shards:sqlite:///a.db|sqlite:///b.db", '"sqlite" is not a name followed by ='),
        ("shards:o ne=memory://|two=memory://", "name followed by ="),
        ("shards:one=memory://|one=memory://", 'two shards have the name "one"'),
        ("shards:one=sqlite:///a.db|two=sqlite:///a.db", "same address"),
        ("shards:one=|two=memory://", 'the address of shard "one" is missing'),
        ("shards:one=shards:x=memory://|two=memory://", "itself sharded"),
        ("shards://host/file.toml", "write shards:///relative.toml"),
        ("shards:////absent/shards.toml", "cannot be read"),
    ],
)
def test_an_invalid_address_says_what_to_change(address: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match="Invalid store address") as refusal:
        check_address(address)
    assert reason in refusal.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("shards = 3", "no table [shards]"),
        ("[shards", "not TOML"),
        ('[shards]\n"a b" = "memory://"', "not a name of a shard"),
        ("[shards]\na = 1\nb = 2", 'the address of shard "a" is missing'),
    ],
)
def test_an_invalid_file_says_what_to_change(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "shards.toml"
    file.write_text(text)
    with pytest.raises(InvalidStoreUrlError) as refusal:
        read_address(f"shards:///{file}")
    assert reason in refusal.value.reason


def test_an_invalid_shard_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidStoreUrlError) as refusal:
        check_address("shards:one=memory://|two=ftp://user:secret@host/|one=memory://")
    assert "secret" not in str(refusal.value)
    assert "***" in str(refusal.value)


def test_a_store_with_a_missing_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    assert is_missing(f"shards:a=sqlite:///{tmp_path}/a.db|b=sqlite:///{tmp_path}/b.db")
    (tmp_path / "b.db").touch()
    assert not is_missing(f"shards:a=sqlite:///{tmp_path}/a.db|b=sqlite:///{tmp_path}/b.db")
