"""Somebody who looks at the pages, and notices when anything is not as it should be."""

from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Response
from tests.browser.stage.server import RunningServer

WAIT_FOR_SCRIPTS = """async () => {
  while (document.documentElement.matches(".js") && !window.htmx)
    await new Promise((done) => setTimeout(done, 10));
}"""


class Visitor:
    """A page, and everything that went wrong on it: errors, dialogs, answers of 500 and more."""

    def __init__(self, context: BrowserContext, server: RunningServer) -> None:
        self.server = server
        self.page: Page = context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        self.page.on("dialog", self._note_dialog)
        self.page.on("response", self._note_response)

    def go(self, path: str = "") -> Page:
        self.page.goto(self.server.page(path))
        self.wait_for_scripts()
        return self.page

    def wait_for_scripts(self) -> None:
        """Scripts begin after the first paint; some people have none."""
        self.page.wait_for_load_state()  # the frame comes before the rest
        self.ask(WAIT_FOR_SCRIPTS)

    def refresh(self) -> None:
        """What the page does by itself after some time."""
        self.ask("() => htmx.trigger(document.body, 'rota:tick')")

    def enter(self, token: str) -> None:
        """Sign in by a request, before any page is shown: two pages less to load."""
        answer = self.page.request.post(
            self.server.page("/sign-in"),
            form={"token": token},
            headers={"origin": self.server.url},
            max_redirects=0,
        )
        assert answer.status == 303, answer.text()

    def sign_in(self, name: str = "anna", path: str = "") -> Page:
        """To the page that is wanted, by way of the door."""
        self.go(path)
        self.page.get_by_label("Token").fill(self.server.tokens[name])
        self.page.get_by_role("button", name="Sign in").click()
        self.page.locator("nav[aria-label=Pages]").wait_for()
        self.wait_for_scripts()
        return self.page

    def open_job(self, name: str) -> Page:
        """Found by its name, in the list."""
        self.go(f"/jobs?q={name}")
        self.page.get_by_role("link", name=name, exact=True).first.click()
        self.page.get_by_role("heading", name=name, level=1).wait_for()
        self.wait_for_scripts()
        return self.page

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def forgive(self, part: str) -> None:
        """Forget troubles that were meant to happen."""
        self.troubles = [each for each in self.troubles if part not in each]

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"console: {message.text}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_response(self, response: Response) -> None:
        if response.status >= 500:
            self.troubles.append(f"{response.status}: {response.url}")
