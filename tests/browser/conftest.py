"""A browser and a server for each module, and a visitor for each test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser
from tests.browser.stage.chromium import (
    could_be_installed,
    find_chromium,
    open_browser,
    open_context,
)
from tests.browser.stage.server import RunningServer, run_server
from tests.browser.stage.story import fill_with_story
from tests.browser.stage.visitor import Visitor

from rota.auth.caller import EVERY_SCOPE, Scope

CALLERS = {"anna": tuple(EVERY_SCOPE), "ben": (Scope.READ,)}
"""Anna may do everything, Ben may only look."""

Invite = Callable[..., Visitor]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after each module: while it is open, no test with an event loop of its own can run."""
    if find_chromium() is None:
        reason = "CHROMIUM IS NOT INSTALLED, so the pages were not tested: make browser"
        if os.environ.get("CI") == "true" and could_be_installed():
            pytest.fail(reason)
        pytest.skip(reason)
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_server(tmp_path_factory.mktemp("server"), fill_with_story, CALLERS) as opened:
        yield opened


@pytest.fixture
def invite(browser: Browser, server: RunningServer) -> Iterator[Invite]:
    """Makes visitors; when the test is over, none may have met with any trouble."""
    with ExitStack() as stack:
        visitors: list[Visitor] = []

        def make(*, dark: bool = False, phone: bool = False, scripts: bool = True) -> Visitor:
            context = open_context(browser, dark=dark, phone=phone, scripts=scripts)
            visitors.append(Visitor(stack.enter_context(context), server))
            return visitors[-1]

        yield make
        assert [each for visitor in visitors for each in visitor.troubles] == []


@pytest.fixture
def anna(invite: Invite) -> Visitor:
    """Signed in; she has no page before her yet."""
    visitor = invite()
    visitor.enter(visitor.server.tokens["anna"])
    return visitor
