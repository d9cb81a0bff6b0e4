"""A page in a browser, as a test looks at it."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.dashboard.serving import TOKENS, Served


class Look:
    """A page, what it asked for, and what went wrong."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.errors: list[str] = []
        page.set_default_timeout(30_000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def open(self, served: Served, path: str = "/", token: str = TOKENS.act) -> Page:
        self.page.goto(f"{served.address}{path}#token={token}")
        return self.page

    def check(self, *, away: bool = False) -> None:
        outside = [url for url in self.asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))]
        assert outside == []
        told = [text for text in self.errors if not (away and "ERR_CONNECTION" in text)]
        assert told == []
