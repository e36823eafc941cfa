"""Encrypted connections: whom they trust, and that a password is never shown."""

import asyncio
import logging
import ssl
import traceback
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from secrets import token_hex

import pytest
import redis
from tests.servers.groups.said_by_sentinels import SERVICE, ToldSentinel
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server
from tests.servers.tls import Authority, Encryption, OwnEncryption

from rota.errors import InvalidStoreUrlError, StoreUnavailableError
from rota.runtime.wiring import inspect_store, migrate_store, open_store
from rota.stores.protocol import HeldLease
from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, take

PASSWORD = "pa55:w/rd@?"  # noqa: S105 - it opens nothing but the server of this module
WRITTEN = "pa55%3Aw%2Frd%40%3F"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """A server that knows a user with a password."""
    server = new_redis_server("guarded")
    with redis.Redis.from_url(server.url) as client:
        client.acl_setuser(
            "ada",
            enabled=True,
            passwords=[f"+{PASSWORD}"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
        )
    yield server
    server.remove()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "theirs")


def encrypt(
    how: str, server: RedisServer, authority: Authority, name: str = "localhost"
) -> Encryption | OwnEncryption:
    if how == "by the server":
        return OwnEncryption(server, authority, name)
    return Encryption(f"{server.folder}/socket", authority, name)


@pytest.fixture(params=["by a proxy", "by the server"])
def how(request: pytest.FixtureRequest) -> str:
    """Who encrypts: a server does only if it is built with TLS, as Debian's redis-server is."""
    return str(request.param)


@pytest.fixture
async def encryption(
    how: str, guarded: RedisServer, authority: Authority
) -> AsyncIterator[Encryption | OwnEncryption]:
    async with encrypt(how, guarded, authority).open() as opened:
        yield opened


def address(
    encryption: Encryption | OwnEncryption, authority: Authority, password: str = WRITTEN
) -> str:
    return f"rediss://ada:{password}@{encryption.place}/0?ssl_ca_certs={authority.certificate}"


async def test_all_that_a_store_does_can_be_encrypted(
    encryption: Encryption | OwnEncryption, authority: Authority
) -> None:
    async with await open_store(address(encryption, authority)) as store, store.listen() as heard:
        await store.insert([a_job()], NOW)
        await heard.wait()
        (leased,) = await take(store)
        keeper = store.make_keeper()
        held = [HeldLease(leased.id, 1)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        keeper.close()
    assert (await inspect_store(address(encryption, authority))).exists


async def test_a_server_whose_certificate_another_has_signed_is_not_trusted(
    encryption: Encryption | OwnEncryption, stranger: Authority
) -> None:
    for attempt in (open_store, migrate_store, inspect_store):
        with pytest.raises(StoreUnavailableError, match=r"not trusted.*CERTIFICATE_VERIFY") as it:
            await attempt(address(encryption, stranger))
        assert it.value.details["outcome"] == "nothing was written"
    assert it.value.details["reason"] == "the certificate of the server is not trusted"


async def test_a_certificate_for_another_name_is_not_trusted(
    how: str, guarded: RedisServer, authority: Authority
) -> None:
    async with encrypt(how, guarded, authority, "elsewhere").open() as other:
        with pytest.raises(StoreUnavailableError, match=r"not trusted.*'localhost'"):
            await open_store(address(other, authority))
        async with await open_store(f"{address(other, authority)}&ssl_cert_reqs=none"):
            pass


async def test_a_server_may_demand_a_certificate(
    encryption: Encryption | OwnEncryption, authority: Authority
) -> None:
    encryption.demand_certificates(authority)
    with pytest.raises(StoreUnavailableError) as caught:
        await open_store(address(encryption, authority))
    assert caught.value.details["outcome"] == "nothing was written"
    certificate, key = authority.sign("ada")
    shown = f"&ssl_certfile={certificate}&ssl_keyfile={key}"
    async with await open_store(address(encryption, authority) + shown):
        pass


async def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreUrlError, match="ssl_ca_certs names no file"):
        await open_store(f"rediss://ada:{WRITTEN}@host/0?ssl_ca_certs={tmp_path}/none.pem")


async def test_sentinels_are_asked_and_the_server_they_name_is_reached_with_tls(
    encryption: Encryption | OwnEncryption, authority: Authority, stranger: Authority
) -> None:
    host, port = encryption.place.split(":")
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    shown.load_cert_chain(*authority.sign("localhost"))
    async with ToldSentinel(host, int(port)).open(shown) as sentinel:
        url = f"rediss+sentinel://ada:{WRITTEN}@{sentinel.place}/{SERVICE}?name={token_hex(6)}&ssl_ca_certs="
        async with await open_store(f"{url}{authority.certificate}") as store:
            await store.insert([a_job()], NOW)
            (leased,) = await take(store)
            keeper = store.make_keeper()
            held = [HeldLease(leased.id, leased.last_token)]
            assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
            keeper.close()
        with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await open_store(f"{url}{stranger.certificate}")


FORMS = ["rediss://ada:{0}@{1}/0?{2}", "rediss://{1}/0?username=ada&password={0}&{2}"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_password_is_shown_nowhere(
    encryption: Encryption | OwnEncryption,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    form: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = form.format(WRITTEN, encryption.place, f"ssl_ca_certs={authority.certificate}")
    settings = read_address(url)
    told = [repr(settings), settings.label]
    async with await RedisStore.open(settings) as store:
        told += [repr(store), repr(await inspect_store(url)), repr(await migrate_store(url))]
    with pytest.raises(InvalidStoreUrlError) as refused:
        read_address(f"{url}&colour=red")
    told += [refused.value.message, repr(refused.value.details), caplog.text]
    for secret in (WRITTEN, PASSWORD, "pa55", "w/rd"):
        assert secret not in "\n".join(told)


@pytest.mark.parametrize("form", FORMS)
async def test_a_wrong_password_is_said_to_be_one_and_not_shown(
    encryption: Encryption | OwnEncryption,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    form: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = form.format("wr0ng", encryption.place, f"ssl_ca_certs={authority.certificate}")
    with pytest.raises(StoreUnavailableError, match="refuses to let this user in") as caught:
        await open_store(url)
    shown = traceback.format_exception(caught.value)
    assert "wr0ng" not in "".join(shown) + repr(caught.value.details) + caplog.text
