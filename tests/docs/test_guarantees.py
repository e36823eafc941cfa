"""What the reference promises of stores is tested under the names it gives."""

import re

from tests.docs.environment import ROOT

from rota.testing.job_store_contract import JobStoreContract

PAGE = (ROOT / "docs/reference/stores.md").read_text(encoding="utf-8")


def test_every_guarantee_names_a_test_that_exists() -> None:
    named = re.findall(r"^\| [^|]+ \| `(test_\w+)` \|$", PAGE, re.MULTILINE)
    assert len(named) > 15
    assert [name for name in named if not hasattr(JobStoreContract, name)] == []
