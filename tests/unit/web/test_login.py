"""Signing in and out: the cookie, what it is worth, and for how long."""

import base64
import json
from datetime import datetime, timedelta

import httpx
import pytest

from fleetagent.entrypoints.web.place import local_path
from fleetagent.entrypoints.web.sessions import IDLE, LONGEST, MOST_OF_ONE, MOST_SESSIONS, expires_at
from support.door import ADMIN, BEGAN, VIEWER, Door, MadeUpCallers, csrf_of, flags_of, sign_in

PUBLIC = "https://fleetagent.example.com"


@pytest.fixture
def door() -> Door:
    return Door(MadeUpCallers())


def a_jwt(expires: datetime) -> str:
    """With the right claim and no signature."""
    claims = json.dumps({"exp": int(expires.timestamp())}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


async def signed_in(browser: httpx.AsyncClient) -> bool:
    """Whether the door is open to this browser."""
    return (await browser.get("/told")).status_code == 200


async def test_who_signs_in_comes_to_where_they_wanted_to_go(door: Door) -> None:
    async with door.browser() as browser:
        answer = await sign_in(browser, ADMIN, next="/agents/ours/porep?x=1")

        assert (answer.status_code, answer.headers["location"]) == (303, "/agents/ours/porep?x=1")
        assert await signed_in(browser)


async def test_the_token_comes_back_in_no_answer(door: Door) -> None:
    async with door.browser() as browser:
        answers = [await sign_in(browser), await browser.get("/told"), await browser.get("/login")]

    for answer in answers:
        assert ADMIN not in answer.text
        assert ADMIN not in str(answer.headers)


@pytest.mark.parametrize("token", ["", "  ", "no token at all", "dead-token", "é", "a\nb"])
async def test_what_the_api_server_does_not_know_opens_no_session(door: Door, token: str) -> None:
    async with door.browser() as browser:
        answer = await sign_in(browser, token)

        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert not await signed_in(browser)
        assert answer.json()["failed"]


async def test_while_the_api_server_is_away_nobody_signs_in(door: Door) -> None:
    door.callers.away = True
    async with door.browser() as browser:
        answer = await sign_in(browser)

    assert answer.status_code == 503
    assert "set-cookie" not in answer.headers


async def test_scripts_and_other_sites_do_not_get_the_cookie(door: Door) -> None:
    async with door.browser() as browser:
        assert flags_of(await sign_in(browser)) == {"fleetagent", "httponly", "samesite=strict", "path=/"}


async def test_behind_tls_the_cookie_travels_by_tls_alone() -> None:
    door = Door(MadeUpCallers(), url=PUBLIC)
    async with door.browser(PUBLIC) as browser:
        flags = flags_of(await sign_in(browser))

        assert flags == {"__host-fleetagent", "httponly", "samesite=strict", "path=/", "secure"}
        assert await signed_in(browser)


async def test_behind_tls_a_cookie_that_plain_http_could_have_set_is_not_taken() -> None:
    door = Door(MadeUpCallers(), url=PUBLIC)
    value = door.visitors.sessions.open(ADMIN, "admin")
    async with door.browser(PUBLIC) as browser:
        browser.cookies.set("fleetagent", value)

        assert not await signed_in(browser)


async def test_an_ingress_that_changes_the_host_does_not_make_our_page_a_stranger() -> None:
    door = Door(MadeUpCallers(), url=PUBLIC)
    async with door.browser("http://fleetagent-web.svc", origin=PUBLIC) as browser:
        assert (await sign_in(browser)).status_code == 303


async def test_signing_in_makes_a_new_session_whatever_cookie_was_there(door: Door) -> None:
    async with door.browser() as browser:
        planted = door.visitors.sessions.open(VIEWER, "viewer")
        browser.cookies.set("fleetagent", planted, domain="127.0.0.1")
        await sign_in(browser)

        assert (await browser.get("/told")).json()["name"] == "admin"
    async with door.browser() as thief:
        thief.cookies.set("fleetagent", planted)
        assert not await signed_in(thief)


async def test_a_made_up_cookie_becomes_no_session(door: Door) -> None:
    async with door.browser() as browser, door.browser() as thief:
        for each in (browser, thief):
            each.cookies.set("fleetagent", "made-up", domain="127.0.0.1")
        await sign_in(browser)

        assert not await signed_in(thief)


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
async def test_another_site_cannot_sign_somebody_in(door: Door, headers: dict[str, str]) -> None:
    async with door.browser(**headers) as browser:
        answer = await sign_in(browser)

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_who_signs_out_has_no_session_any_more(door: Door) -> None:
    async with door.browser() as browser:
        await sign_in(browser)
        value, csrf = browser.cookies["fleetagent"], await csrf_of(browser)
        by_another_site = await browser.post("/logout")
        answer = await browser.post("/logout", data={"csrf": csrf})
        browser.cookies.set("fleetagent", value)

        assert by_another_site.status_code == 403
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert not await signed_in(browser)


async def test_a_session_that_nobody_uses_ends(door: Door) -> None:
    async with door.browser() as browser:
        await sign_in(browser)
        door.later(seconds=IDLE.total_seconds() - 1)
        used = await signed_in(browser)
        door.later(seconds=IDLE.total_seconds() - 1)
        used_again = await signed_in(browser)
        door.later(seconds=IDLE.total_seconds())

        assert used
        assert used_again
        assert not await signed_in(browser)


async def test_a_session_that_is_used_all_the_time_ends_after_eight_hours(door: Door) -> None:
    async with door.browser() as browser:
        await sign_in(browser)
        while door.now < BEGAN + LONGEST - timedelta(minutes=10):
            door.later(minutes=10)
            assert (await signed_in(browser)) or door.now >= BEGAN + LONGEST
        door.later(minutes=10)

        assert not await signed_in(browser)


async def test_a_session_never_outlives_its_token(door: Door) -> None:
    token = a_jwt(BEGAN + timedelta(minutes=10))
    door.callers.names[token] = "short"
    async with door.browser() as browser:
        await sign_in(browser, token)
        before = await signed_in(browser)
        door.later(minutes=10)

        assert before
        assert not await signed_in(browser)


async def test_a_session_whose_token_the_api_server_forgets_is_over(door: Door) -> None:
    async with door.browser() as browser:
        await sign_in(browser)
        name = door.callers.names.pop(ADMIN)
        refused = await signed_in(browser)
        door.callers.names[ADMIN] = name

        assert not refused
        assert not await signed_in(browser)


async def test_who_signs_in_again_and_again_ends_their_own_sessions_alone(door: Door) -> None:
    async with door.browser() as other, door.browser() as first, door.browser() as last:
        await sign_in(other, VIEWER)
        await sign_in(first)
        for _ in range(MOST_OF_ONE):
            door.later(seconds=1)
            await sign_in(last)
            last.cookies.clear()
        await sign_in(last)

        assert await signed_in(other)
        assert await signed_in(last)
        assert not await signed_in(first)


async def test_people_whom_the_api_server_gives_no_name_do_not_end_each_others_sessions(door: Door) -> None:
    sessions = door.visitors.sessions
    first = sessions.open("first", None)
    for _ in range(MOST_OF_ONE):
        sessions.open("second", None)

    assert sessions.find(first) is not None


async def test_who_is_there_for_the_longest_without_use_gives_way_when_all_places_are_taken(door: Door) -> None:
    sessions = door.visitors.sessions
    first, second = sessions.open("first", "first"), sessions.open("second", "second")
    door.later(seconds=1)
    sessions.find(first)
    for n in range(MOST_SESSIONS - 1):
        sessions.open(f"t{n}", f"n{n}")

    assert sessions.find(first) is not None
    assert sessions.find(second) is None


@pytest.mark.parametrize(
    "said",
    [
        "//evil.example",
        "///evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\\evil.example",
        "/a\\b",
        "/\t/evil.example",
        "/\n/evil.example",
        " /evil",
        "\\\\evil",
        "",
        "evil",
        "/logout",
        "/login?next=/",
        "/é",
    ],
)
async def test_the_login_leads_to_no_other_host(door: Door, said: str) -> None:
    async with door.browser() as browser:
        answer = await sign_in(browser, ADMIN, next=said)
        shown = await browser.get("/login", params={"next": said})

    assert answer.headers["location"] == shown.json()["next"] == "/"


async def test_a_token_in_the_fragment_stays_in_no_address(door: Door) -> None:
    open_to_all = Door(MadeUpCallers(), without_login=ADMIN)
    async with door.browser() as browser, open_to_all.browser() as at_home:
        await sign_in(browser)

        assert (await browser.get("/login?next=/told")).status_code == 200  # our script takes it from there
        assert (await at_home.get("/login?next=/told")).headers["location"] == "/told#"


def test_a_path_of_ours_is_kept_with_its_query() -> None:
    assert local_path("/agents/a/b?session=3#x") == "/agents/a/b?session=3#x"


@pytest.mark.parametrize(
    "token", ["", "a.b.c", "a.e30.c", "a.eyJleHAiOiJ4In0.c", "a.eyJleHAiOjFlOTl9.c", "a.W10.c", "."]
)
def test_a_token_that_tells_no_end_has_none(token: str) -> None:
    assert expires_at(token) is None
