"""Connects a command to the service: to a server, or to a store that it opens itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from rota.cli.output import Terminal
from rota.cli.place import Whereabouts, find_target, name_user
from rota.client import Client, ServerAddress, StoreAddress, open_client
from rota.client.client import Created
from rota.errors import InvalidInputError, NotFoundError
from rota.jobs import JobId, normalize_job_id
from rota.jobs.fields import is_plain_queue

Found = TypeVar("Found")


def find_address(
    place: Whereabouts, environ: Mapping[str, str] | None = None
) -> StoreAddress | ServerAddress:
    """The address of what the options, or else the environment, name."""
    target = find_target(place, environ)
    if target.is_server:
        return ServerAddress(url=target.url, token=target.token)
    return StoreAddress(url=target.url, tenant=target.tenant, who=name_user())


def converse(
    terminal: Terminal,
    place: Whereabouts,
    talk: Callable[[Client], Awaitable[Found]],
    *,
    makes: bool = False,
) -> Found:
    """Call ``talk`` with an open client, and return what it returns.

    A command that only reads never creates a store: without ``makes``, a missing file is an error.
    """
    if not makes:
        find_target(place).require()
    address = find_address(place)

    async def run() -> Found:
        async with open_client(address, terminal.clock) as client:
            return await talk(client)

    return asyncio.run(run())


def find_job(terminal: Terminal, place: Whereabouts, text: str) -> JobId:
    """The id of the only job whose id is, or begins with, ``text``."""
    whole = normalize_job_id(text)
    if whole is not None:
        return whole
    query = {"q": f"id:{text}"}
    found = converse(terminal, place, lambda it: it.collect("/jobs/search", query, limit=2)).items
    if not found:
        raise NotFoundError(f"no job has an id that begins with {text}", {"id": text})
    if len(found) > 1:
        ids = " and ".join(str(job["id"]) for job in found)
        reason = f"is the beginning of several ids, such as {ids}; give more of it"
        raise InvalidInputError(f'ID "{text}" {reason}', {"field": "ID", "reason": reason})
    return JobId(found[0]["id"])


def create_job(
    terminal: Terminal, place: Whereabouts, body: Mapping[str, Any], *, as_json: bool
) -> Created:
    """Create a job, and print what the server warns about.

    ``POST /jobs`` takes the queue names of specification 5 only; ``/jobs/bulk`` takes all.
    """

    async def create(client: Client) -> Created:
        if is_plain_queue(str(body["queue"])):
            return await client.create("/jobs", body)
        made = await client.ask("POST", "/jobs/bulk", body={"jobs": [body]})
        return Created(made["items"][0], is_new=made["created_count"] == 1)

    created = converse(terminal, place, create, makes=True)
    if created.warning is not None and not as_json:
        terminal.print_remark(created.warning)
    return created
