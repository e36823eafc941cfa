"""S3: a token is shown once and known by a hash; it turns up nowhere else."""

import logging
import re
import traceback
from datetime import timedelta

import httpx2
import pytest
from tests.server.security.conftest import NOW, MakeStage, Stage

from rota.auth.caller import Scope
from rota.auth.tokens import RANDOM_BITS, TOKEN_PATTERN, TokenBook, is_well_formed
from rota.server import GuardSettings, ServerSettings
from rota.server.app import TABLE
from rota.telemetry.logs import JsonFormatter

TOKENS = "/api/v1/tokens"
WISH = {"name": "billing", "scopes": ["read", "write"]}
WORDS = {"read", "write", "operate", "admin"}


async def test_a_token_has_256_bits_a_prefix_and_a_checksum(stage: Stage) -> None:
    token = await stage.issue()
    assert RANDOM_BITS == 256
    assert re.fullmatch(TOKEN_PATTERN, token)
    assert is_well_formed(token)
    assert not is_well_formed(token[:-1] + ("0" if token[-1] != "0" else "1"))


async def test_a_token_is_shown_once(stage: Stage) -> None:
    client = await stage.sign_up()
    issued = (await client.post(TOKENS, json=WISH)).json()
    assert is_well_formed(issued["secret"])
    listed = await client.get(TOKENS)
    revoked = await client.delete(f"{TOKENS}/{issued['id']}")
    audit = [it.body async for page in stage.store.scan("audit:ours") for it in page]
    shown = listed.text + revoked.text + b"".join(audit).decode()
    assert issued["id"] in shown
    assert re.search(TOKEN_PATTERN, shown) is None


async def test_a_new_token_does_what_it_was_made_for_and_nothing_else(stage: Stage) -> None:
    admin = await stage.sign_up()
    secret = (await admin.post(TOKENS, json=WISH)).json()["secret"]
    client = await stage.connect(secret)
    assert (await client.get("/api/v1/jobs")).status_code == 200
    assert (await client.get(TOKENS)).status_code == 403


async def test_revocation_holds_in_less_than_five_seconds(stage: Stage) -> None:
    admin = await stage.sign_up()
    issued = (await admin.post(TOKENS, json=WISH)).json()
    client = await stage.connect(issued["secret"])
    assert (await client.get("/api/v1/jobs")).status_code == 200
    answer = await admin.delete(f"{TOKENS}/{issued['id']}")
    assert answer.json()["revoked_at"] == "2026-05-01T12:00:00Z"
    await stage.clock.advance(timedelta(seconds=2))
    assert (await client.get("/api/v1/jobs")).status_code == 401


async def test_a_token_expires(stage: Stage) -> None:
    admin = await stage.sign_up()
    wish = {**WISH, "expires_at": (NOW + timedelta(hours=1)).isoformat()}
    client = await stage.connect((await admin.post(TOKENS, json=wish)).json()["secret"])
    assert (await client.get("/api/v1/jobs")).status_code == 200
    await stage.clock.advance(timedelta(hours=1))
    assert (await client.get("/api/v1/jobs")).status_code == 401


async def test_admin_includes_the_other_scopes_and_only_admin_issues(stage: Stage) -> None:
    admin = await stage.connect(await stage.issue(scopes=[Scope.ADMIN]))
    assert (await admin.post("/api/v1/jobs", json={"name": "x", "queue": "q"})).status_code == 201
    assert (await admin.get("/api/v1/jobs")).status_code == 200
    assert (await admin.get("/api/v1/dead-letters")).status_code == 200
    assert (await admin.post(TOKENS, json={"name": "x", "scopes": ["operate"]})).status_code == 201
    rest = await stage.connect(await stage.issue(scopes=set(Scope) - {Scope.ADMIN}))
    refused = await rest.post(TOKENS, json={"name": "x", "scopes": ["read"]})
    assert (refused.status_code, refused.json()["details"]) == (403, {"scope": "admin"})


async def test_a_token_issues_none_that_outlives_it(stage: Stage) -> None:
    tomorrow = NOW + timedelta(days=1)
    token = await stage.book.issue("ours", [Scope.ADMIN], "ada", tomorrow)
    client = await stage.connect(token.secret.reveal())
    later = {**WISH, "expires_at": (tomorrow + timedelta(seconds=1)).isoformat()}
    refused = await client.post(TOKENS, json=later)
    assert (refused.status_code, refused.json()["details"]["field"]) == (400, "expires_at")
    assert "2026-05-02T12:00:00" in refused.json()["message"]
    issued = (await client.post(TOKENS, json=WISH)).json()
    assert issued["expires_at"] == "2026-05-02T12:00:00Z"
    earlier = {**WISH, "expires_at": (NOW + timedelta(hours=1)).isoformat()}
    assert (await client.post(TOKENS, json=earlier)).json()["expires_at"] == "2026-05-01T13:00:00Z"


async def test_a_revoked_token_issues_none_while_another_server_still_knows_it(
    stage: Stage,
) -> None:
    token = await stage.book.issue("ours", [Scope.ADMIN], "ada")
    client = await stage.connect(token.secret.reveal())
    assert (await client.get(TOKENS)).status_code == 200
    await TokenBook(stage.store, stage.clock).revoke(token.id)
    assert (await client.get(TOKENS)).status_code == 200, "cached for two seconds"
    assert (await client.post(TOKENS, json=WISH)).status_code == 401


async def issue_line(stage: Stage) -> tuple[httpx2.AsyncClient, list[str]]:
    """Three tokens, each issued by the one before, and their ids."""
    first = await stage.book.issue("ours", [Scope.ADMIN], "first")
    secret, ids = first.secret.reveal(), [first.id]
    for name in ("second", "third"):
        await stage.clock.advance(timedelta(seconds=1))
        client = await stage.connect(secret)
        issued = (await client.post(TOKENS, json={"name": name, "scopes": ["admin"]})).json()
        assert issued["issued_by"] == ids[-1]
        ids.append(issued["id"])
        secret = issued["secret"]
    return await stage.sign_up(), ids


async def test_revoking_names_the_descendants_that_stay_valid(stage: Stage) -> None:
    admin, (first, second, third) = await issue_line(stage)
    answer = (await admin.delete(f"{TOKENS}/{first}")).json()
    assert (answer["valid_descendants"], answer["revoked_descendants"]) == ([second, third], [])
    shown = {it["id"]: it["revoked_at"] for it in (await admin.get(TOKENS)).json()["items"]}
    assert (shown[second], shown[third]) == (None, None)


async def test_revoking_may_include_all_descendants_also_afterwards(stage: Stage) -> None:
    admin, (first, second, third) = await issue_line(stage)
    await admin.delete(f"{TOKENS}/{first}")
    answer = (await admin.delete(f"{TOKENS}/{first}", params="descendants=true")).json()
    assert (answer["valid_descendants"], answer["revoked_descendants"]) == ([], [second, third])
    shown = {it["id"]: it["revoked_at"] for it in (await admin.get(TOKENS)).json()["items"]}
    assert None not in (shown[first], shown[second], shown[third])


async def test_the_audit_shows_who_issued_whom(stage: Stage) -> None:
    admin, (first, second, third) = await issue_line(stage)
    await admin.delete(f"{TOKENS}/{first}", params="descendants=true")
    entries = (await admin.get("/api/v1/audit")).json()["items"]
    issues = [it for it in entries if it["action"] == "token.issue"]
    assert [(it["who"], it["details"]["token_id"]) for it in issues] == [
        ("second", third),
        ("first", second),
    ]
    assert [it["details"]["issued_by"] for it in issues] == [second, first]
    revoked = [it["details"]["token_id"] for it in entries if it["action"] == "token.revoke"]
    assert set(revoked) == {third, second, first}


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["root"]}, "scopes"),
        ({"name": "", "scopes": ["read"]}, "name"),
        ({"name": "x", "scopes": ["read"], "expires_at": "yesterday"}, "expires_at"),
        ({"name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "x", "scopes": ["read"], "tenant": "theirs"}, "tenant"),
        ({"scopes": ["read"]}, "name"),
    ],
)
async def test_a_wish_that_makes_no_sense_names_the_field(
    stage: Stage, wish: dict[str, object], field: str
) -> None:
    answer = await (await stage.sign_up()).post(TOKENS, json=wish)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"]["field"].startswith(field)


async def test_the_list_comes_in_pages(stage: Stage) -> None:
    admin = await stage.sign_up()
    for number in range(4):
        await stage.clock.advance(timedelta(seconds=1))
        await admin.post(TOKENS, json={**WISH, "name": f"number {number}"})
    names: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        page = (
            await admin.get(TOKENS, params="limit=2" + (f"&cursor={cursor}" if cursor else ""))
        ).json()
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        assert page["has_more"] is (cursor is not None)
    assert names == ["number 3", "number 2", "number 1", "number 0", "ada"]
    for query in ("limit=0", "limit=101", "cursor=nowhere"):
        assert (await admin.get(TOKENS, params=query)).status_code == 400


REQUESTS: list[tuple[str, str, object]] = [
    *((route.method, route.path, None) for route in TABLE),
    ("POST", "/api/v1/jobs", {"name": "x", "queue": "q", "unknown": "field"}),
    ("POST", "/api/v1/jobs", {"name": "x", "queue": "q"}),
    ("GET", "/nothing/here", None),
]


async def test_no_token_is_found_in_logs_or_answers(
    make_stage: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    """Every route is asked with good and bad tokens, and once more on a store that fails."""
    stage = make_stage(ServerSettings(guarding=GuardSettings(stranger_rate=None)))
    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(JsonFormatter())
    token = await stage.issue()
    revoked = await stage.book.issue("ours", WORDS, "revoked")
    await stage.book.revoke(revoked.id)
    seen: list[str] = []
    for secret in (token, revoked.secret.reveal(), token[:-1]):
        client = await stage.connect(secret)
        for method, path, body in REQUESTS:
            answer = await client.request(method, path, json=body)
            seen += [answer.text, str(answer.headers)]
    client = await stage.connect(token)
    issued = (await client.post(TOKENS, json=WISH)).json()["secret"]
    await stage.store.close()  # from here on every request fails inside
    seen.append((await client.get("/api/v1/jobs")).text)
    seen.append(caplog.text)
    seen += [
        "".join(traceback.format_exception(r.exc_info[1])) for r in caplog.records if r.exc_info
    ]
    for secret in (token, revoked.secret.reveal(), token[:-1], issued):
        assert secret not in "".join(seen)
    assert re.search(TOKEN_PATTERN, "".join(seen)) is None
    assert "incident" in caplog.text


async def test_the_sign_in_page_repeats_no_token_and_says_the_same_of_all_bad_ones(
    stage: Stage,
) -> None:
    browser = await stage.connect()
    browser.headers["origin"] = str(browser.base_url)
    revoked = await stage.book.issue("ours", WORDS, "revoked")
    await stage.book.revoke(revoked.id)
    answers = []
    for token in (revoked.secret.reveal(), "rota_mistyped", "", "<script>"):
        answer = await browser.post("/admin/sign-in", data={"token": token})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        answers.append(answer.text)
    assert len(set(answers)) == 1
    assert re.search(TOKEN_PATTERN, answers[0]) is None


async def test_a_token_is_never_taken_from_an_address(stage: Stage) -> None:
    token = await stage.issue()
    client = await stage.connect()
    for name in ("token", "access_token", "authorization"):
        assert (await client.get("/api/v1/jobs", params={name: token})).status_code in {400, 401}
        answer = await client.get("/admin/jobs", params={name: token})
        assert (answer.status_code, "set-cookie" in answer.headers) == (303, False)
        signed = await client.get("/admin/sign-in", params={name: token})
        assert "set-cookie" not in signed.headers
        assert token not in signed.text


async def test_a_session_ends_when_its_token_is_revoked(stage: Stage) -> None:
    issued = await stage.book.issue("ours", WORDS, "ada")
    browser = await stage.connect()
    browser.headers["origin"] = str(browser.base_url)
    await browser.post("/admin/sign-in", data={"token": issued.secret.reveal()})
    assert (await browser.get("/admin/jobs")).status_code == 200
    await stage.book.revoke(issued.id)
    gone = await browser.get("/admin/jobs")
    assert (gone.status_code, gone.headers["location"].partition("?")[0]) == (303, "/admin/sign-in")
