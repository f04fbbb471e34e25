"""Every page in a real Chromium, on agents that have lived: seen by everybody, complete, and harmless.

Make the pictures under docs/images anew by `PICTURES=yes pytest tests/e2e/test_page_views.py`.
"""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from support.browser import IMAGES, PHONE, PICTURES, REFUSED, WIDE, Look, Scheme
from support.inhabited import CAREFUL, ELSEWHERE, GROWING, Inhabited
from support.stage import NAME

View = Callable[[Inhabited], str]

VIEWS: dict[str, View] = {
    "list": lambda _: "/",
    "overview": lambda world: world.path(),
    "overview-waiting": lambda world: world.path(name=CAREFUL),
    "overview-empty": lambda world: world.path(name=ELSEWHERE, namespace=world.other),
    "runs": lambda world: world.path("runs"),
    "run": lambda world: world.path(f"runs/{world.run('Refused')}"),
    "run-answered": lambda world: world.path(f"runs/{world.answered_run()}"),
    "run-compacted": lambda world: world.path(f"runs/{world.compacted_in()}"),
    "conversation": lambda world: world.path("conversation"),
    "conversation-everything": lambda world: world.path("conversation?view=everything"),
    "conversation-archived": lambda world: world.path(f"conversation?session={world.first_session()}"),
    "sessions": lambda world: world.path("sessions"),
    "wakes": lambda world: world.path("wakes"),
    "fleet": lambda world: world.path("fleet?ended=1"),
    "fleet-growing": lambda world: world.path("fleet", GROWING),
    "fleet-empty": lambda world: world.path("fleet", ELSEWHERE, world.other),
    "spend": lambda world: world.path("spend"),
    "alerts": lambda world: world.path("alerts"),
    "alerts-empty": lambda world: world.path("alerts", ELSEWHERE, world.other),
    "actions": lambda world: world.path("actions"),
    "actions-waiting": lambda world: world.path("actions", CAREFUL),
}
LOOKS: tuple[tuple[Scheme, int], ...] = (("light", WIDE), ("dark", WIDE), ("light", PHONE))
WIDE_AND_LIGHT = {"list", "overview", "runs", "run", "conversation", "fleet", "spend", "alerts", "actions-waiting"}
IN_DOCS = {
    ("light", WIDE): WIDE_AND_LIGHT,
    ("dark", WIDE): {"list", "overview", "conversation", "fleet"},
    ("light", PHONE): {"list", "overview", "conversation", "fleet"},
}


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_view_can_be_read_by_everybody_and_asks_nobody_else(
    inhabited: Inhabited, chromium: Browser, scheme: Scheme, width: int
) -> None:
    wrong: list[str] = []
    with Look.through(chromium, inhabited.base_url, scheme=scheme, width=width) as look:
        look.sign_in(inhabited.admin)
        for name, view in VIEWS.items():
            if (status := look.open(view(inhabited))) != 200:
                wrong.append(f"{name}: answered {status}")
            wrong += [f"{name}: {found}" for found in look.inaccessible()]
            if beyond := look.wider_than_its_window():
                wrong.append(f"{name}: {beyond} pixels wider than its window")
            if PICTURES and name in IN_DOCS[scheme, width]:
                look.page.wait_for_timeout(300)  # a plot is drawn after its figures have come
                look.picture(IMAGES / f"{name}-{'phone' if width == PHONE else scheme}.png")

        look.check()
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(PICTURES, reason="strangers are nice in pictures")
def test_what_hosts_models_and_people_say_is_text_on_every_view(inhabited: Inhabited, chromium: Browser) -> None:
    shown_on = set()
    with Look.through(chromium, inhabited.base_url) as look:
        look.sign_in(inhabited.admin)
        for name, view in VIEWS.items():
            look.open(view(inhabited))
            for fold in look.page.locator("main details > summary").all():
                fold.click()
            assert look.page.locator("main img, main script, main iframe").count() == 0, name
            assert "stolen" not in look.page.title()
            if "<script>document.title=" in look.text():
                shown_on.add(name)

        look.check()
    assert {"overview", "alerts", "conversation", "fleet", "run-answered"} <= shown_on


def test_a_person_without_the_right_to_steer_sees_everything_and_no_button(
    inhabited: Inhabited, chromium: Browser
) -> None:
    with Look.through(chromium, inhabited.base_url) as look:
        look.sign_in(inhabited.viewer)
        for view in VIEWS.values():
            assert look.open(view(inhabited)) == 200
            assert look.page.locator("main form[method=post]").count() == 0

        look.open(inhabited.path())
        look.wait_for_text(re.compile("You can look and not steer"))
        look.check()


def test_a_person_of_another_namespace_sees_that_one_alone(inhabited: Inhabited, chromium: Browser) -> None:
    with Look.through(chromium, inhabited.base_url) as look:
        look.sign_in(inhabited.neighbour)
        look.open("/")
        assert ELSEWHERE in look.text()
        assert NAME not in look.text()
        assert inhabited.stage.namespace not in look.text()

        for view in ("overview", "runs", "conversation", "fleet", "spend", "alerts", "actions"):
            assert look.open(VIEWS[view](inhabited)) == 403
            assert "247" not in look.text().replace(inhabited.stage.namespace, "")
        look.expected.append(REFUSED)
        look.check()


def test_a_person_without_any_right_is_told_what_to_ask_for(inhabited: Inhabited, chromium: Browser) -> None:
    with Look.through(chromium, inhabited.base_url) as look:
        look.sign_in(inhabited.stranger)
        look.open("/")

        look.wait_for_text("No agent that you may read.")
        assert "fleetagent-viewer" in look.text()
        assert look.inaccessible() == []
        look.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_login_and_what_does_not_exist_can_be_read_by_everybody(
    inhabited: Inhabited, chromium: Browser, scheme: Scheme
) -> None:
    with Look.through(chromium, inhabited.base_url, scheme=scheme, width=PHONE) as look:
        assert look.open("/login") == 200
        assert look.inaccessible() == []
        look.page.get_by_label("Token").fill("nonsense")
        look.page.get_by_role("button", name="Sign in").click()
        look.page.locator("#failed").wait_for()
        assert look.inaccessible() == []

        look.sign_in(inhabited.admin)
        for missing in (inhabited.path(name="nobody"), inhabited.path("runs/999999"), inhabited.path("nothing")):
            assert look.open(missing) == 404
            assert look.inaccessible() == []
            assert look.wider_than_its_window() == 0
        look.expected.append(REFUSED)
        look.check()


def test_the_choice_of_colours_is_kept_and_goes_before_the_systems(inhabited: Inhabited, chromium: Browser) -> None:
    with Look.through(chromium, inhabited.base_url, scheme="light") as look:
        look.sign_in(inhabited.viewer)
        look.open("/")
        light = _background(look)
        button = look.page.locator("#theme")
        while "dark" not in button.inner_text():
            button.click()
        dark = _background(look)
        look.open(inhabited.path())

        assert (_background(look), dark == light) == (dark, False)
        look.check()


def _background(look: Look) -> str:
    colour: str = look.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour
