"""Takes the pictures of the documentation from the real pages, with a story in the store.

``python -m tests.browser.pictures [FOLDER]`` writes PNG files of a few dozen kilobytes.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page
from tests.browser.pictures.png import shrink
from tests.browser.stage.chromium import open_browser, open_context
from tests.browser.stage.server import RunningServer, run_server
from tests.browser.stage.story import fill_with_story

from rota.auth.caller import EVERY_SCOPE

FOLDER = Path(__file__).parents[3] / "docs" / "images" / "pages"
HIGHEST = 1_250
LOOKS = {"light": (False, False), "dark": (True, False), "phone": (False, True)}
PAGES = {
    "overview": ("", ("light", "dark", "phone")),
    "jobs": ("/jobs", ("light", "dark", "phone")),
    "queues": ("/queues", ("light",)),
    "queue": ("/queues/mail", ("light",)),
    "kinds": ("/kinds", ("light",)),
    "kind": ("/kinds/mail.send", ("light",)),
    "errors": ("/errors", ("light",)),
    "tenants": ("/tenants", ("light",)),
    "new-job": ("/jobs/new?kind=http.request", ("light",)),
    "schedules": ("/schedules", ("light", "phone")),
    "workers": ("/workers", ("light",)),
    "gates": ("/gates", ("light",)),
    "dead-letters": ("/dead-letters", ("light", "phone")),
    "audit": ("/audit", ("light",)),
}
"""Which pages are taken, and how they look there."""

JOBS = {"graph": "Morning report", "job": "Charge invoice 4711"}


def sign_in(page: Page, server: RunningServer, name: str = "anna") -> None:
    page.goto(server.page())
    page.get_by_label("Token").fill(server.tokens[name])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview", level=1).wait_for()


def take_pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = {"anna": tuple(EVERY_SCOPE)}
    taken: dict[str, bytes] = {}
    with (
        TemporaryDirectory() as scratch,
        run_server(Path(scratch), fill_with_story, names) as server,
        open_browser() as browser,
    ):
        for look, (dark, phone) in LOOKS.items():
            with open_context(browser, dark=dark, phone=phone) as context:
                taken.update(_take_all(context.new_page(), server, look))
    with ProcessPoolExecutor() as pool:
        for name, png in zip(taken, pool.map(shrink, taken.values()), strict=True):
            (folder / f"{name}.png").write_bytes(png)


def _take_all(page: Page, server: RunningServer, look: str) -> Iterator[tuple[str, bytes]]:
    page.goto(server.page())
    if look == "light":
        yield "sign-in", _take(page)
    sign_in(page, server)
    for name, (path, looks) in PAGES.items():
        if look in looks:
            page.goto(server.page(path))
            yield f"{name}-{look}", _take(page)
    for name, title in JOBS.items():
        page.goto(server.page(f"/jobs?q={title}"))
        page.get_by_role("link", name=title).click()
        page.get_by_role("heading", name=title, level=1).wait_for()
        yield f"{name}-{look}", _take(page)
    if look == "light":
        page.get_by_role("button", name="Retry…").click()
        page.get_by_role("heading", name="Retry 1 job?").wait_for()
        yield "confirm-light", _take(page)


def _take(page: Page) -> bytes:
    """As high as what is on it, within reason: so the frame is whole."""
    page.wait_for_load_state()
    width = page.viewport_size["width"] if page.viewport_size else 1280
    page.set_viewport_size({"width": width, "height": 560})
    needed = int(page.evaluate("document.querySelector('main').scrollHeight"))
    is_phone = width < 600
    height = needed + 110 if is_phone else needed
    page.set_viewport_size({"width": width, "height": max(560, min(height, HIGHEST))})
    return page.screenshot()


if __name__ == "__main__":
    os.environ["TZ"] = "Europe/Berlin"
    take_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
