"""A real Chromium for tests of the page, and what it must never do while somebody looks."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # ships no types
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from fleetagent.dev.chromium import find_chromium

Scheme = Literal["light", "dark"]

WIDE, PHONE = 1280, 380
REFUSED = "Failed to load resource"
"""What Chromium says in its console of every answer from 400 on."""
HEIGHT = 900
ANSWERS_WITHIN_S = 15
RULES: dict[str, Any] = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
PICTURES = bool(os.environ.get("PICTURES"))
"""Whether pictures are taken for the documentation, of what is nice to see."""
IMAGES = Path(__file__).parents[2] / "docs" / "images"


@contextmanager
def a_chromium() -> Iterator[Browser]:
    """One browser process. Not for a whole session of pytest: its event loop would be in the way of async tests."""
    found = find_chromium()
    with sync_playwright() as playwright:
        environ: dict[str, str | float | bool] = dict(found.environ)
        browser = playwright.chromium.launch(
            executable_path=found.program, args=["--no-sandbox", "--force-color-profile=srgb"], env=environ
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Look:
    """One person's browser window, with a list of what went wrong in it."""

    base_url: str
    context: BrowserContext
    page: Page
    faults: list[str] = field(default_factory=list)
    """Errors of scripts and of the console, violations of the Content-Security-Policy, requests to elsewhere."""
    expected: list[str] = field(default_factory=list)
    """Words of complaints that a test has called for."""

    @classmethod
    @contextmanager
    def through(
        cls, browser: Browser, base_url: str, *, scheme: Scheme = "light", width: int = WIDE, height: int = HEIGHT
    ) -> Iterator["Look"]:
        """A new window without cookies, closed at the end."""
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        context.set_default_timeout(ANSWERS_WITHIN_S * 1000)
        look = cls(base_url, context, context.new_page())
        look.page.on("console", lambda said: look._complain("console", said.text) if said.type == "error" else None)
        look.page.on("pageerror", lambda error: look._complain("script", str(error)))
        context.on("request", look._note)
        try:
            yield look
        finally:
            context.close()

    def sign_in(self, token: str) -> None:
        """By the login page, as a person does who has pasted a token."""
        self.open("/login")
        self.page.get_by_label(re.compile("token", re.IGNORECASE)).fill(token)
        self.page.get_by_role("button", name=re.compile("log in|sign in", re.IGNORECASE)).click()
        self.page.wait_for_url(lambda url: not urlsplit(url).path.startswith("/login"))

    def open(self, path: str) -> int:
        """Go to a page; the status of the answer. The page has read its data when this returns."""
        answer = self.page.goto(self.base_url + path)
        assert answer is not None
        return answer.status

    def wait_for_text(self, text: str | re.Pattern[str]) -> None:
        """Until it can be read in the page."""
        self.page.get_by_text(text).first.wait_for()

    def text(self) -> str:
        """All that can be read in it."""
        return self.page.locator("body").inner_text()

    def inaccessible(self) -> list[str]:
        """What axe finds in the page as it is now, a line for each rule."""
        found = Axe().run(self.page, options=RULES).response["violations"]
        return [f"{v['id']}: {v['help']}: {[(n['target'], n['html'][:200]) for n in v['nodes'][:3]]}" for v in found]

    def wider_than_its_window(self) -> int:
        """By how many pixels the page must be scrolled sideways."""
        beyond: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return beyond

    def picture(self, path: Path, *, full: bool = False) -> None:
        """What it looks like."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path, full_page=full, animations="disabled", caret="hide")

    def check(self) -> None:
        """Nothing went wrong, but for what was expected."""
        faults = [fault for fault in self.faults if not any(word in fault for word in self.expected)]
        assert not faults, "\n".join(faults)

    def _note(self, request: Request) -> None:
        url = request.url
        if not url.startswith((self.base_url + "/", "data:", "blob:")):
            self._complain("request to elsewhere", url)

    def _complain(self, kind: str, words: str) -> None:
        self.faults.append(f"{kind}: {words} (on {urlsplit(self.page.url).path})")
