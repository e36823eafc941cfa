"""``rota demo``: a store with something going on in it."""

import asyncio

from rota.cli.operating.bulk import showing_progress
from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, JsonOption, StoreOption
from rota.cli.reading.place import name_user
from rota.cli.rendering.terminal import Terminal
from rota.cli.running.example import Scene, make_scenes
from rota.client import Client, StoreAddress, open_client
from rota.runtime.startup import show_address


def demo(
    *, store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False, terminal: GivenTerminal
) -> None:
    """Fill the store, and say with what."""
    made = asyncio.run(_fill(terminal, store))
    if as_json:
        terminal.print_document(made)
        return
    created, existing = made["created_count"], made["existing_count"]
    terminal.print_text(f"{created} jobs created, {existing} were there already.", "bold")
    where = "" if store == DEFAULT_STORE else f" --store {show_address(store)}"
    terminal.print_text(f"See them run: rota up{where}. Watch them meanwhile: rota top{where}.")


async def _fill(terminal: Terminal, url: str) -> dict[str, int]:
    scenes = make_scenes(terminal.clock.now())
    made = {"created_count": 0, "existing_count": 0}
    with showing_progress(terminal, sum(len(it.jobs) for it in scenes)) as advance:
        for scene in scenes:
            address = StoreAddress(url=url, tenant=scene.tenant, who=name_user())
            async with open_client(address, terminal.clock) as client:
                created_count = await _play(client, scene)
            made["created_count"] += created_count
            made["existing_count"] += len(scene.jobs) - created_count
            advance(len(scene.jobs))
    return made


async def _play(client: Client, scene: Scene) -> int:
    """Make what is not there yet; how many jobs that were.

    A key tells two jobs apart only if they stand for the same occurrence, and that of a series is
    another one every minute: so series are told by their names.
    """
    if scene.quiet_hours is not None:
        await client.ask("PUT", "/gates/quiet-hours", body=scene.quiet_hours)
    running = {it["name"] for it in (await client.collect("/series", limit=1000)).items}
    wanted = [it for it in scene.jobs if "recurrence" not in it or it["name"] not in running]
    answer = await client.post("/jobs/bulk", {"jobs": wanted})
    return int(answer["created_count"])
