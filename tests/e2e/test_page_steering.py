"""Signing in, and each button, in a real Chromium; what it did is read from the API server and from Postgres."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, expect

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.asking import BY_HAND, LOOK, ask, codes, launch, offers
from support.browser import ANSWERS_WITHIN_S, PHONE, REFUSED, Look
from support.inhabited import Inhabited, an_empty_stage, said, with_people
from support.stage import NAME

expect.set_options(timeout=ANSWERS_WITHIN_S * 1000)


@pytest.fixture(scope="module")
def peopled(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Inhabited]:
    """An agent that does nothing by itself, and people who may steer it or not."""
    folder = tmp_path_factory.mktemp("page")
    with an_empty_stage(control_plane, postgres_server, migrated_template, folder) as (stage, other):
        stage.start_operator()
        stage.apply(spec={"schedule": BY_HAND, "target": {"proofsPerHour": 0}})
        stage.wait_for_runs(1)
        yield with_people(stage, other)


@pytest.fixture
def look(peopled: Inhabited, chromium: Browser) -> Iterator[Look]:
    """The agent's page, before somebody who may steer."""
    with Look.through(chromium, peopled.base_url) as window:
        window.sign_in(peopled.admin)
        window.open(peopled.path())
        yield window
        window.check()


def annotation(world: Inhabited, name: str) -> str:
    """What stands at the API server."""
    stored = world.stage.resource()["metadata"].get("annotations", {})
    return str(stored.get(f"fleetagent.dev/{name}", ""))


def newest_run(world: Inhabited) -> int:
    return int(world.stage.runs()[-1]["run_id"])


def button(look: Look, name: str) -> None:
    """Press the button of this name, as it is read."""
    look.page.get_by_role("button", name=name, exact=True).click()


# --- who is there ---


def test_a_person_signs_in_looks_and_signs_out_and_nothing_can_be_read_afterwards(
    peopled: Inhabited, chromium: Browser
) -> None:
    with Look.through(chromium, peopled.base_url) as look:
        for page in ("/", peopled.path(), peopled.path("conversation")):
            look.open(page)
            assert look.page.url.startswith(f"{peopled.base_url}/login")
            assert NAME not in look.page.locator("main").inner_text()

        look.page.get_by_label("Token").fill("nonsense")
        button(look, "Sign in")
        expect(look.page.locator("#failed")).to_contain_text("token")

        look.page.get_by_label("Token").fill(peopled.viewer)
        button(look, "Sign in")
        look.page.wait_for_url(f"**{peopled.path('conversation')}")
        look.open(peopled.path())
        assert look.page.evaluate("document.cookie") == "", "scripts must not see the session"
        assert peopled.viewer not in look.page.content()

        button(look, "Sign out")
        look.page.wait_for_url("**/login*")
        look.page.go_back()
        expect(look.page.get_by_label("Token")).to_be_visible()
        look.expected.append(REFUSED)
        look.check()


def test_a_link_with_a_token_behind_the_hash_signs_in_and_forgets_it(peopled: Inhabited, chromium: Browser) -> None:
    with Look.through(chromium, peopled.base_url) as look:
        look.open(f"/login?next={peopled.path('fleet')}#token={peopled.viewer}")
        look.page.wait_for_url(f"**{peopled.path('fleet')}")

        assert peopled.viewer not in look.page.url
        look.page.go_back()
        assert peopled.viewer not in look.page.url
        look.check()


def test_a_session_that_was_ended_elsewhere_does_nothing_more(peopled: Inhabited, look: Look) -> None:
    elsewhere = look.context.new_page()
    elsewhere.goto(peopled.base_url + "/")
    elsewhere.get_by_role("button", name="Sign out").click()
    elsewhere.wait_for_url("**/login*")
    before = newest_run(peopled)

    look.expected.append(REFUSED)
    button(look, "Run now")
    look.page.wait_for_url("**/login*")

    assert newest_run(peopled) == before


# --- what they say ---


def test_run_now_starts_a_run_that_appears_without_a_reload(peopled: Inhabited, look: Look) -> None:
    look.page.evaluate("window.sameDocument = true")
    before = newest_run(peopled)

    button(look, "Run now")
    expect(look.page.locator("#said")).to_contain_text("A run is asked for")
    expect(look.page.locator(f"#run-{before + 1}")).to_be_visible()

    run = peopled.stage.runs()[-1]
    assert (run["run_id"], run["triggers"]) == (before + 1, ["Request"])
    asked = annotation(peopled, "requested-at")
    peopled.stage.wait_for(lambda: peopled.stage.status()["lastHandledRequest"] == asked, "it is reported as served")
    assert look.page.evaluate("window.sameDocument") is True


def test_what_others_do_appears_without_a_reload_also_on_the_list(peopled: Inhabited, look: Look) -> None:
    look.open("/")
    look.page.evaluate("window.sameDocument = true")
    before = newest_run(peopled)

    peopled.stage.annotate(requested_at=f"by hand {datetime.now(UTC)}")  # noqa: TID251  # any new value
    row = look.page.locator(f"#agent-{peopled.stage.namespace}-{NAME}")
    expect(row).to_contain_text(re.compile(rf"\b{before + 1} Held\b"), timeout=30_000)  # the list refreshes seldom

    assert look.page.evaluate("window.sameDocument") is True


def test_a_message_reaches_the_agent_word_for_word(peopled: Inhabited, look: Look) -> None:
    words = "Prefer hosts in the EU.\n<b>Not bold</b> & no 'tricks'"
    button(look, "Message…")
    look.page.get_by_label("Message", exact=True).fill(words)
    button(look, "Send")
    expect(look.page.locator("#said")).to_contain_text("Sent.")

    heard = "SELECT content FROM messages WHERE kind = 'feedback' ORDER BY session_id DESC, seq DESC LIMIT 1"
    peopled.stage.wait_for(lambda: peopled.stage.rows(heard), "the agent hears it")
    assert words in peopled.stage.rows(heard)[0]["content"]
    assert annotation(peopled, "message") == words


def test_an_alert_is_acknowledged_with_a_comment_and_closes(peopled: Inhabited, look: Look) -> None:
    said(peopled.stage, "[sim] alert warning the pager test")
    alert = peopled.stage.rows("SELECT id FROM alerts WHERE state = 'open'")[0]["id"]
    comment = look.page.get_by_label(f"Comment for alert-{alert}, told to the agent")
    comment.fill("known, the pager works")
    button(look, f"Acknowledge alert-{alert}")

    expect(look.page.locator("#alerts")).to_contain_text("none: nothing wants your attention")
    row = peopled.stage.rows("SELECT state, comment FROM alerts WHERE id = %s", alert)[0]
    assert row == {"state": "acknowledged", "comment": "known, the pager works"}


def test_a_pause_is_written_into_the_spec_and_ended_again(peopled: Inhabited, look: Look) -> None:
    button(look, "Pause…")
    look.page.get_by_label("For how long").fill("3h")
    look.page.get_by_label("stops (Down)").check()
    look.page.get_by_label("Reason").fill("market too dear")
    button(look, "Pause")
    expect(look.page.get_by_text("Paused (Up and Down) until")).to_be_visible()

    pause = peopled.stage.resource()["spec"]["pause"]
    assert (pause["reason"], pause["directions"]) == ("market too dear", ["Up", "Down"])
    left = datetime.fromisoformat(pause["until"]) - datetime.now(UTC)  # noqa: TID251  # it is three hours from now
    assert 10_000 < left.total_seconds() <= 10_800

    button(look, "Resume")
    expect(look.page.get_by_text("Paused (Up and Down) until")).not_to_be_visible()
    assert "pause" not in peopled.stage.resource()["spec"]


def test_a_reset_is_asked_once_more_and_archives_the_conversation(peopled: Inhabited, look: Look) -> None:
    session = peopled.stage.status()["session"]["id"]
    button(look, "Reset…")
    button(look, "Keep it")
    assert annotation(peopled, "reset-requested-at") == ""

    button(look, "Reset…")
    button(look, "Archive and begin anew")
    expect(look.page.locator("#said")).to_contain_text("A reset is asked for")
    peopled.stage.wait_for(lambda: peopled.stage.status()["session"]["id"] > session, "a new session")

    ended = peopled.stage.rows("SELECT ended_at FROM sessions WHERE id = %s", session)[0]["ended_at"]
    assert ended is not None


# --- how they say it ---


def test_the_keyboard_alone_is_enough_from_login_to_an_acknowledged_alert(
    peopled: Inhabited, chromium: Browser
) -> None:
    said(peopled.stage, "[sim] alert critical the keyboard test")
    alert = peopled.stage.rows("SELECT max(id) AS id FROM alerts")[0]["id"]
    with Look.through(chromium, peopled.base_url, width=PHONE) as look:
        look.open("/login")
        keys = look.page.keyboard
        keys.type(peopled.admin)  # the field has the focus already
        keys.press("Enter")
        look.page.wait_for_url(f"{peopled.base_url}/")
        _tab_to(look, f"#open-{peopled.stage.namespace}-{NAME}")
        keys.press("Enter")
        look.page.wait_for_url(f"**{peopled.path()}")
        keys.press("Tab")
        expect(look.page.locator(":focus")).to_have_text("Skip to the content")
        keys.press("Enter")
        _tab_to(look, f"#comment-{alert}")
        keys.type("seen")
        _tab_to(look, f"#acknowledge-{alert}")
        keys.press("Enter")

        state = "SELECT comment FROM alerts WHERE id = %s AND state = 'acknowledged'"
        peopled.stage.wait_for(lambda: peopled.stage.rows(state, alert), "it is acknowledged")
        assert peopled.stage.rows(state, alert)[0]["comment"] == "seen"
        look.check()


def _tab_to(look: Look, selector: str, at_most: int = 60) -> None:
    """Press Tab until that has the focus, and the focus can be seen."""
    for _ in range(at_most):
        look.page.keyboard.press("Tab")
        focused = look.page.locator(":focus")
        if focused.count() and look.page.locator(selector).evaluate("it => it === document.activeElement"):
            width = focused.evaluate("it => getComputedStyle(it).outlineWidth")
            assert width != "0px", f"{selector} does not show that it has the focus"
            return
    pytest.fail(f"{selector} is not reached within {at_most} presses of Tab")


def test_without_scripts_pages_and_buttons_still_do_what_they_say(peopled: Inhabited, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    try:
        page.goto(peopled.base_url + "/login")
        page.get_by_label("Token").fill(peopled.admin)
        page.get_by_role("button", name="Sign in").click()
        page.goto(peopled.base_url + peopled.path())
        before = newest_run(peopled)
        page.get_by_role("button", name="Run now").click()

        expect(page.locator("#said")).to_contain_text("A run is asked for")
        peopled.stage.wait_for(lambda: newest_run(peopled) > before, "the run")
    finally:
        context.close()


def test_a_refused_word_is_answered_in_place_with_what_to_change(peopled: Inhabited, look: Look) -> None:
    button(look, "Pause…")
    span = look.page.get_by_label("For how long")
    span.evaluate("field => field.removeAttribute('pattern')")
    span.fill("soon")
    look.expected += [REFUSED, "Response Status Error Code 400"]
    button(look, "Pause")

    expect(look.page.locator("#said .bad, #pop-pause .bad")).to_contain_text("for")
    assert "pause" not in peopled.stage.resource()["spec"]


# --- and last, since the agent wants much from then on ---


def test_one_waiting_action_is_approved_and_happens_the_other_is_rejected(peopled: Inhabited, look: Look) -> None:
    stage = peopled.stage
    ask(stage, [LOOK], mode="Approve", approvalExpiry="10m", target={"proofsPerHour": 5000})
    shown = offers(stage)
    asked = ask(stage, [LOOK], [launch(shown[0]), launch(shown[1])])
    assert codes(asked) == ["waiting", "waiting"]
    wanted, unwanted = (f"action-{action['id']}" for action in asked)

    expect(look.page.locator(f"#{wanted}")).to_contain_text(re.compile(r"in \d+ min"))
    button(look, f"Approve {wanted}")
    expect(look.page.locator(f"#{wanted}")).not_to_be_visible()
    button(look, f"Reject {unwanted}")
    expect(look.page.locator(f"#{unwanted}")).not_to_be_visible()

    became = {f"action-{row['id']}": row["state"] for row in stage.rows("SELECT id, state FROM actions")}
    assert (became[wanted], became[unwanted]) == ("done", "rejected")
    assert len(stage.market.live()) == 1
    stage.wait_for_books()
