"""The page of the reference about REST, compared with what is served."""

import re
from pathlib import Path

from rota.server.app import TABLE
from rota.server.http.problems import INTERNAL, MEANINGS

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/rest.md").read_text(encoding="utf-8")


def test_every_route_is_listed_with_its_scope_and_no_other() -> None:
    listed = re.findall(r"^\| `([A-Z]+) (/\S*)` \| (\w+) \|", PAGE, re.MULTILINE)
    served = {(route.method, route.path, str(route.scope or "none").lower()) for route in TABLE}
    assert len(listed) == len(set(listed))
    assert set(listed) == served


def test_every_status_of_an_error_is_listed_with_its_code() -> None:
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", PAGE, re.MULTILINE)
    meant = {(str(meaning.status), meaning.code) for meaning in (*MEANINGS.values(), INTERNAL)}
    assert set(listed) == meant
