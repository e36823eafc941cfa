"""The browser that the tests drive: Debian's Chromium, with a fresh profile."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

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
DESK = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
PATIENCE = 60_000
"""Milliseconds after which something is taken never to appear, on however slow a machine."""

expect.set_options(timeout=PATIENCE)


def find_chromium() -> str | None:
    """The program, if this machine has it. The one without a window takes half the time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), None)


def could_be_installed() -> bool:
    """Whether ``make browser`` could have brought it here."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser; every context of it has cookies and a cache of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=list(ARGUMENTS), headless=True
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_context(
    browser: Browser, *, dark: bool = False, phone: bool = False, scripts: bool = True
) -> Iterator[BrowserContext]:
    """As somebody sees it: at night, on a phone, or without JavaScript."""
    size = PHONE if phone else DESK
    context = browser.new_context(
        viewport={"width": size["width"], "height": size["height"]},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        reduced_motion="reduce",
        timezone_id="Europe/Berlin",
        locale="en-GB",
    )
    context.set_default_timeout(PATIENCE)
    try:
        yield context
    finally:
        context.close()
