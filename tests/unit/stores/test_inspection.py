"""How a store stands, compared with what this program knows."""

from rota.stores.inspection import StoreInspection, compare_schema, schema_version
from rota.stores.migrations import read_migration

FIRST = read_migration("0001_first.sql", "-- compatible: no\nCREATE TABLE one (a);\n")
SECOND = read_migration("0002_second.sql", "-- compatible: yes\nCREATE TABLE two (a);\n")
THIRD = read_migration("0003_third.sql", "-- compatible: no\nDROP TABLE one;\n")


def test_a_pending_migration_is_a_finding() -> None:
    standing = compare_schema([FIRST, SECOND], [FIRST.mark])
    assert standing.applied == (FIRST.mark,)
    assert standing.pending == (SECOND.mark,)
    assert standing.problem is None


def test_a_schema_that_this_program_cannot_work_with_is_a_finding_too() -> None:
    standing = compare_schema([FIRST], [FIRST.mark, THIRD.mark])
    assert standing.applied == (FIRST.mark, THIRD.mark)
    assert standing.pending == ()
    assert "0003_third" in (standing.problem or "")


def test_the_version_is_the_number_of_the_last_migration() -> None:
    assert schema_version([]) == 0
    assert schema_version([FIRST.mark, THIRD.mark]) == 3


def test_a_store_is_up_to_date_when_nothing_is_pending_or_wrong() -> None:
    assert StoreInspection("a", "b").is_up_to_date
    assert not StoreInspection("a", "b", pending=(FIRST.mark,)).is_up_to_date
    assert not StoreInspection("a", "b", problem="newer").is_up_to_date
