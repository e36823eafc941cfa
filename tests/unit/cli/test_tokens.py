"""``rota tokens`` on a store."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbits

import pytest
from tests.unit.cli.conftest import RunRota

from rota import open_store
from rota.auth.tokens import TOKEN_PATTERN, TokenBook, is_well_formed
from rota.ops.tokens import TenantTokens, TokenRequest
from rota.policy.audit import AuditEntry
from rota.rail import RailSettings, read_audit
from rota.rail.jobs import RailContext
from rota.testing import VirtualClock


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rota.db'}"


def audit_of(url: str, tenant: str) -> list[AuditEntry]:
    async def run() -> list[AuditEntry]:
        async with await open_store(url) as store:
            return [entry async for entry in read_audit(store, tenant)]

    return asyncio.run(run())


def test_a_token_is_printed_once_and_alone(rota: RunRota, url: str) -> None:
    made = rota("tokens", "create", "ada", "--scope", "read", "--scope", "write", "--store", url)
    assert made.status == 0
    assert is_well_formed(made.out.removesuffix("\n"))
    assert re.fullmatch(r"Token [0-9a-f]{24} for default, shown this once:\n", made.err)
    assert re.search(TOKEN_PATTERN, rota("tokens", "list", "--store", url).out) is None


def test_a_token_for_programs(rota: RunRota, url: str) -> None:
    made = rota(
        *("tokens", "create", "billing", "--scope", "write", "--tenant", "guild-7"),
        *("--days", "90", "--store", url, "--json"),
    )
    document = made.document
    assert is_well_formed(document["secret"])
    assert document["tenant"] == "guild-7"
    assert document["scopes"] == ["write"]
    assert document["expires_at"] == "2027-06-24T12:00:30Z"


def test_the_list_shows_what_a_token_is_good_for(rota: RunRota, url: str) -> None:
    rota("tokens", "create", "evil\x1b[31m", "--scope", "read", "--store", url)
    rota("tokens", "create", "ada", "--scope", "read", "--scope", "admin", "--store", url)
    days = rota("tokens", "create", "bob", "--scope", "read", "--days", "1", "--store", url)
    assert days.err.endswith(
        " for default, good until Sat 2027-03-27 12:00:30 GMT, shown this once:\n"
    )
    lines = rota("tokens", "list", "--store", url).out.splitlines()
    header = "Id Tenant Scopes Good until Last used Name Issued by"
    assert " ".join(lines[0].split()) == header
    assert lines[-1] == "2 tokens"
    rows = "\n".join(lines[1:-1])
    assert "read admin  -" in rows
    assert "Sat 2027-03-27 12:00:30 GMT" in rows


def test_tenants_have_lists_of_their_own(rota: RunRota, url: str) -> None:
    rota("tokens", "create", "ada", "--scope", "read", "--store", url)
    assert rota("tokens", "list", "--tenant", "other", "--store", url).out == "0 tokens\n"


def test_a_revoked_token_is_listed_as_such(rota: RunRota, url: str) -> None:
    made = rota("tokens", "create", "ada", "--scope", "read", "--store", url, "--json").document
    revoked = rota("tokens", "revoke", made["id"], "--store", url)
    assert (revoked.status, revoked.out) == (0, "Revoked: ada.\n")
    assert "revoked" in rota("tokens", "list", "--store", url).out
    document = rota("tokens", "revoke", made["id"], "--store", url, "--json").document
    assert document["revoked_at"] == "2027-03-26T12:00:30Z"


def test_the_beginning_of_a_token_id_is_enough(rota: RunRota, url: str) -> None:
    made = rota("tokens", "create", "ada", "--scope", "read", "--store", url, "--json").document
    other = rota("tokens", "create", "bob", "--scope", "read", "--store", url, "--json").document
    assert rota("tokens", "revoke", made["id"][:10], "--store", url).out == "Revoked: ada.\n"
    missing = rota("tokens", "revoke", "ffffffffff", "--store", url)
    assert (missing.status, "begins with ffffffffff" in missing.err) == (3, True)
    several = rota("tokens", "revoke", "", "--store", url)
    assert several.status == 2
    assert other["id"] in several.err


def test_actions_are_in_the_audit_log(rota: RunRota, url: str) -> None:
    made = rota("tokens", "create", "ada", "--scope", "read", "--store", url, "--json").document
    rota("tokens", "revoke", made["id"], "--store", url)
    rota("tokens", "revoke", made["id"], "--store", url)
    entries = audit_of(url, "default")
    assert {entry.action for entry in entries} == {"token.issue", "token.revoke"}
    assert len(entries) == 2
    for entry in entries:
        assert entry.details == {
            "token_id": made["id"],
            "name": "ada",
            "scopes": ["read"],
            "issued_by": None,
        }
        assert entry.who


def test_a_token_given_instead_of_its_id_is_refused_and_not_repeated(
    rota: RunRota, url: str
) -> None:
    """Arguments are seen by everybody on the host; the least is not to log it as well."""
    made = rota("tokens", "create", "ada", "--scope", "read", "--store", url)
    refused = rota("tokens", "revoke", made.out.strip(), "--store", url)
    assert refused.status == 2
    assert "that is a token itself" in refused.err
    assert made.out.strip() not in refused.err


def test_no_option_takes_a_token(rota: RunRota) -> None:
    shown = rota("tokens", "create", "--help").out
    assert "--token-file" in shown
    assert re.search(r"--token\b(?!-file)", shown) is None


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("create", "ada"), 2),
        (("create", "ada", "--scope", "root"), 2),
        (("create", "ada", "--scope", "read", "--days", "0"), 2),
        (("create", "", "--scope", "read"), 2),
        (("revoke", "0" * 24), 3),
    ],
)
def test_impossible_actions_set_the_exit_status(
    rota: RunRota, url: str, arguments: tuple[str, ...], status: int
) -> None:
    rota("store", "migrate", url)
    outcome = rota("tokens", *arguments, "--store", url)
    assert outcome.status == status
    assert outcome.err.startswith("error: ")
    assert outcome.out == ""


def test_a_token_for_a_queue_says_so(rota: RunRota, url: str) -> None:
    made = rota(
        *("tokens", "create", "mailer", "--scope", "worker", "--queue", "mail", "--queue", "sms"),
        *("--store", url, "--json"),
    ).document
    assert (made["scopes"], made["queues"], made["issued_by"]) == (
        ["worker"],
        ["mail", "sms"],
        None,
    )
    assert "worker, on mail sms" in rota("tokens", "list", "--store", url).out


def test_revoking_offers_the_descendants(rota: RunRota, url: str) -> None:
    first = rota("tokens", "create", "ada", "--scope", "admin", "--store", url, "--json").document

    async def issue() -> None:
        async with await open_store(url) as store:
            clock = VirtualClock(datetime(2027, 3, 26, 12, tzinfo=UTC))
            around = RailContext(store, "default", clock, RailSettings(), randbits)
            caller = await TokenBook(store, clock).identify(first["secret"], clock.now())
            assert caller is not None
            await TenantTokens(around).issue_for(caller, TokenRequest("laptop", ["read"]))

    asyncio.run(issue())
    listed = rota("tokens", "list", "--store", url).out.splitlines()
    assert [line.split()[-2:] for line in listed if "laptop" in line] == [["laptop", "ada"]]
    alone = rota("tokens", "revoke", first["id"], "--store", url)
    assert alone.out == "Revoked: ada.\n"
    assert "Still valid: 1 token that descended from it." in alone.err
    assert f"rota tokens revoke {first['id']} --descendants" in " ".join(alone.err.split())
    both = rota("tokens", "revoke", first["id"], "--descendants", "--store", url)
    assert both.out == "Revoked: ada, and 1 token that descended from it.\n"
    assert both.err == ""
