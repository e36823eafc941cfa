"""The browser that the tests drive: Debian's Chromium, with a profile of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Playwright, sync_playwright

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)


def find_chromium() -> str | None:
    """The program, if there is one on this machine."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def open_browser(
    playwright: Playwright, folder: Path, *, dark: bool = False, phone: bool = False
) -> Iterator[BrowserContext]:
    """A browser with a fresh profile in ``folder``."""
    width, height = (390, 844) if phone else (1280, 860)
    context = playwright.chromium.launch_persistent_context(
        folder,
        executable_path=find_chromium(),
        args=list(ARGUMENTS),
        headless=True,
        viewport={"width": width, "height": height},
        device_scale_factor=1,
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        timezone_id="Europe/Berlin",
        locale="en-GB",
    )
    context.set_default_timeout(10_000)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def start_playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright
