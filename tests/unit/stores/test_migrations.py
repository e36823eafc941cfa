"""Numbered changes to a schema."""

import pytest

from rota.errors import SchemaOutdatedError
from rota.stores.migrations import (
    AppliedMigration,
    load_migrations,
    pending_migrations,
    read_migration,
)

FIRST = read_migration("0001_first.sql", "-- compatible: no\nCREATE TABLE one (a);\n")
SECOND = read_migration("0002_second.sql", "-- compatible: yes\nCREATE TABLE two (a);\n")
THIRD = read_migration("0003_third.sql", "-- compatible: no\nDROP TABLE one;\n")


def test_a_file_says_its_number_name_and_compatibility() -> None:
    assert SECOND.mark[:3] == (2, "second", True)
    assert FIRST.mark[:3] == (1, "first", False)
    assert "CREATE TABLE two" in SECOND.script


def test_any_edit_changes_the_checksum() -> None:
    edited = read_migration("0001_first.sql", "-- compatible: no\nCREATE TABLE one (b);\n")
    assert edited.mark.checksum != FIRST.mark.checksum


@pytest.mark.parametrize("name", ["1_first.sql", "0001-first.sql", "0001_first.txt", "first.sql"])
def test_a_file_with_another_kind_of_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not called like"):
        read_migration(name, "-- compatible: no\n")


@pytest.mark.parametrize("text", ["", "CREATE TABLE one (a);", "-- compatible: maybe\n"])
def test_a_file_that_does_not_say_whether_it_is_compatible_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not begin with"):
        read_migration("0001_first.sql", text)


def test_a_new_store_goes_through_all_in_order() -> None:
    assert pending_migrations([FIRST, SECOND, THIRD], []) == (FIRST, SECOND, THIRD)


def test_each_is_applied_once() -> None:
    assert pending_migrations([FIRST, SECOND, THIRD], [FIRST.mark, SECOND.mark]) == (THIRD,)
    assert pending_migrations([FIRST, SECOND], [FIRST.mark, SECOND.mark]) == ()


def test_an_older_program_works_on_a_newer_schema_that_is_compatible() -> None:
    assert pending_migrations([FIRST], [FIRST.mark, SECOND.mark]) == ()


def test_an_older_program_is_refused_by_a_newer_schema_that_is_not() -> None:
    with pytest.raises(SchemaOutdatedError, match=r"0003_third.*upgrade Rota") as caught:
        pending_migrations([FIRST, SECOND], [FIRST.mark, SECOND.mark, THIRD.mark])
    assert caught.value.details == {"migration": 3, "name": "third"}


def test_a_migration_that_was_applied_with_other_content_is_refused() -> None:
    other = AppliedMigration(1, "elsewhere", is_compatible=False, checksum="0" * 64)
    with pytest.raises(SchemaOutdatedError, match="0001_elsewhere than the 0001_first"):
        pending_migrations([FIRST], [other])


@pytest.mark.parametrize(
    ("package", "released"),
    [
        (
            "rota.stores.sqlite",
            ["899aa88d0a549ee375f250d35301b7d7196e828f81b8e41d9f0eeaf3a7003a22"],
        ),
        (
            "rota.stores.postgres",
            ["18e82788019ad26a884e1e642ce473e3c6f57632fb9c3e3cfa10f76d3cc6ce8f"],
        ),
    ],
)
def test_migrations_are_numbered_without_gaps_and_never_edited_once_released(
    package: str, released: list[str]
) -> None:
    marks = [migration.mark for migration in load_migrations(package)]
    assert [mark.number for mark in marks] == list(range(1, len(marks) + 1))
    assert [mark.checksum for mark in marks[: len(released)]] == released


@pytest.mark.parametrize("package", ["rota.stores.sqlite", "rota.stores.postgres"])
def test_programs_that_know_documents_only_can_work_with_jobs_beside_them(package: str) -> None:
    assert all(migration.mark.is_compatible for migration in load_migrations(package)[1:])
