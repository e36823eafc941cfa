"""What SQLite reports, in Rota's words."""

from pathlib import Path

import apsw
import pytest

from rota.errors import StoreDamagedError, StoreUnavailableError
from rota.stores.sqlite.translation import translate, translated

PATH = Path("folder with space") / "rota.db"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (apsw.BusyError("x"), "another program has kept it locked for too long"),
        (apsw.FullError("x"), "the disk is full, or the file has reached its largest size"),
        (apsw.ReadOnlyError("x"), "the file or its directory is read-only"),
        (apsw.CantOpenError("x"), "the file cannot be opened"),
        (apsw.IOError("x"), "reading or writing the file failed"),
        (apsw.MisuseError("x"), "SQLite refused"),
    ],
)
def test_an_error_says_which_store_and_why(error: apsw.Error, reason: str) -> None:
    meaning = translate(error, PATH)
    assert isinstance(meaning, StoreUnavailableError)
    assert meaning.message == f"The store {PATH} is not available: {reason} (x)"
    assert meaning.details == {"path": str(PATH), "reason": reason}


@pytest.mark.parametrize("error", [apsw.CorruptError("x"), apsw.NotADBError("x")])
def test_damage_comes_with_a_command_that_saves_what_can_be_read(error: apsw.Error) -> None:
    meaning = translate(error, PATH)
    assert isinstance(meaning, StoreDamagedError)
    assert meaning.details["recovery"] == (
        "python -m rota.stores.sqlite.rescue 'folder with space/rota.db' "
        "'folder with space/rota-rescued.db'"
    )
    assert meaning.details["recovery"] in meaning.message


def test_the_cause_is_kept() -> None:
    with pytest.raises(StoreUnavailableError) as caught, translated(PATH):
        raise apsw.FullError("x")
    assert isinstance(caught.value.__cause__, apsw.FullError)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), translated(PATH):
        raise KeyError
