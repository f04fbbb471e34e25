"""The one door: who is let in, and what is let in with them."""

from collections.abc import AsyncIterator

import httpx
import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.guard import LARGEST_BODY
from fleetagent.entrypoints.web.refusals import HEADERS
from support.door import ADMIN, OURS_ALONE, VIEWER, Door, MadeUpCallers, csrf_of, sign_in

PAUSE = {"for": "2h"}


@pytest.fixture
def door() -> Door:
    return Door(MadeUpCallers())


@pytest.mark.parametrize("path", ["/", "/told", "/agents/ours/porep", "/api/v1/namespaces/ours/told", "/nowhere"])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "PUT"])
async def test_nothing_is_served_to_nobody(door: Door, path: str, method: str) -> None:
    async with door.program() as nobody:
        answer = await nobody.request(method, path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer dead-token", "Bearer é", f"Bearer {'a' * 20000}"],
)
async def test_nothing_is_served_for_what_is_no_token(door: Door, header: str) -> None:
    async with door.program() as program:
        answer = await program.get("/told", headers=[(b"authorization", header.encode("latin-1"))])

    assert answer.status_code == 401
    assert answer.json()["error"] == "NotSignedIn"
    assert "dead-token" not in answer.text


@pytest.mark.parametrize("host", ["a/login?", "a/static/x?", "a/login#", "127.0.0.1/metrics?", "a/static/\\"])
async def test_a_host_header_opens_no_door(door: Door, host: str) -> None:
    async with door.program() as nobody:
        answers = [await nobody.get(path, headers={"host": host}) for path in ("/told", "/agents/ours/x", "/")]

    assert [answer.status_code for answer in answers] == [401, 401, 401]


@pytest.mark.parametrize(
    "path", ["/login/../told", "/static/../told", "/static/%2e%2e/told", "//told", "/told%3F/login"]
)
async def test_a_strange_path_leads_nobody_past_the_door(door: Door, path: str) -> None:
    async with door.program() as nobody:
        answer = await nobody.get(httpx.URL(f"http://127.0.0.1:8080{path}"))

    assert answer.status_code in {401, 404}
    assert "csrf" not in answer.text


async def test_a_wrong_token_is_not_helped_by_a_session(door: Door) -> None:
    async with door.browser() as browser:
        await sign_in(browser)

        assert (await browser.get("/told", headers={"authorization": "Bearer dead-token"})).status_code != 200


async def test_a_token_opens_the_door(door: Door) -> None:
    async with door.program(VIEWER) as program:
        assert (await program.get("/told")).json()["name"] == "viewer"


async def test_metrics_and_the_login_are_open_to_all(door: Door) -> None:
    async with door.program() as nobody:
        assert (await nobody.get("/metrics")).text == "up 1\n"
        assert (await nobody.get("/login")).status_code == 200


@pytest.mark.parametrize("host", ["Fleetagent.example.com", "fleetagent.example.com:443", "fleetagent.example.com."])
async def test_by_the_public_name_metrics_are_open_to_those_alone_who_have_a_token(host: str) -> None:
    door = Door(MadeUpCallers(), url="https://fleetagent.example.com")
    async with door.program() as nobody, door.program(VIEWER) as viewer:
        public = {"host": host}
        answers = [await each.get("/metrics", headers=public) for each in (nobody, viewer)]
        within = await nobody.get("/metrics", headers={"host": "10.0.0.7:8080"})

    assert [answer.status_code for answer in answers] == [401, 200]
    assert within.status_code == 200


@pytest.mark.parametrize("path", ["/told/", "/agents/ours/porep/", "/api/v1/namespaces/ours/agents/porep/pause/"])
async def test_no_address_leads_to_another_one_over_which_a_token_would_travel_readable(door: Door, path: str) -> None:
    async with door.program(ADMIN) as program:
        answers = [await program.get(path), await program.post(path, json=PAUSE)]

    assert [(answer.status_code, "location" in answer.headers) for answer in answers] == [(404, False)] * 2


async def test_a_browser_without_session_is_led_to_the_login_and_back(door: Door) -> None:
    async with door.browser() as browser:
        answer = await browser.get("/agents/ours/porep?x=1&y=2")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fagents%2Fours%2Fporep%3Fx%3D1%26y%3D2"


async def test_a_fragment_without_session_leads_the_whole_page_to_the_login(door: Door) -> None:
    async with door.browser(**{"hx-request": "true"}) as browser:
        answer = await browser.get("/told")

    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")


@pytest.mark.parametrize("path", ["/agents/theirs/porep", "/api/v1/namespaces/theirs/told", "/agents/no-such/porep"])
async def test_a_namespace_user_reads_no_other_namespace(door: Door, path: str) -> None:
    async with door.program(OURS_ALONE) as program:
        refused, ours = await program.get(path), await program.get("/agents/ours/porep")

    assert (refused.status_code, refused.json()["error"]) == (403, "NotAllowed")
    assert ours.status_code == 200


async def test_a_namespace_that_is_not_there_looks_like_one_that_is_not_theirs(door: Door) -> None:
    async with door.program(OURS_ALONE) as program:
        said = {(await program.get(f"/agents/{each}/x")).text.replace(each, "N") for each in ("theirs", "no-such")}

    assert len(said) == 1


async def test_who_reads_cannot_steer(door: Door) -> None:
    door.callers.store(AgentKey("ours", "porep"), {})
    async with door.program(VIEWER) as program:
        answer = await program.post("/api/v1/namespaces/ours/agents/porep/pause", json=PAUSE)

    assert (answer.status_code, answer.json()["error"]) == (403, "NotAllowed")
    assert door.callers.patches == []


async def test_who_steers_is_told_what_was_written(door: Door) -> None:
    door.callers.store(AgentKey("ours", "porep"), {})
    async with door.program(ADMIN) as program:
        answer = await program.post("/api/v1/namespaces/ours/agents/porep/pause", json=PAUSE)

    assert answer.status_code == 202
    assert answer.json()["written"]["spec"]["pause"]["until"] == "2026-12-01T10:00:00Z"


@pytest.mark.parametrize("body", [b"[]", b"{", b'"x"', b"[" * 5000, b'{"for": "2h", "more": 1}', b'{"for": 7}', b"{}"])
async def test_a_body_that_makes_no_sense_is_refused(door: Door, body: bytes) -> None:
    door.callers.store(AgentKey("ours", "porep"), {})
    async with door.program(ADMIN) as program:
        answer = await program.post("/api/v1/namespaces/ours/agents/porep/pause", content=body)

    assert (answer.status_code, answer.json()["error"]) == (400, "BadRequest")


async def test_steering_what_is_not_there_is_told_so(door: Door) -> None:
    async with door.program(ADMIN) as program:
        answer = await program.post("/api/v1/namespaces/ours/agents/none/request", json={})

    assert (answer.status_code, answer.json()["error"]) == (404, "NotFound")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-csrf-token": "wrong"},
        {"x-csrf-token": "RIGHT", "sec-fetch-site": "cross-site"},
        {"x-csrf-token": "RIGHT", "sec-fetch-site": "same-site"},
        {"x-csrf-token": "RIGHT", "origin": "https://evil.example"},
        {"x-csrf-token": "RIGHT", "origin": "null"},
    ],
)
async def test_a_change_that_another_site_sends_is_refused(door: Door, headers: dict[str, str]) -> None:
    async with door.browser() as browser:
        await sign_in(browser)
        right = await csrf_of(browser)
        sent = {name: value.replace("RIGHT", right) for name, value in headers.items()}
        answer = await browser.post("/agents/ours/porep/do/request", headers=sent)

    assert answer.status_code == 403


@pytest.mark.parametrize("way", ["header", "field"])
async def test_a_change_that_our_page_sends_arrives_whole(door: Door, way: str) -> None:
    async with door.browser(**{"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8080"}) as browser:
        await sign_in(browser)
        csrf = await csrf_of(browser)
        form = {"text": "prefer hosts in the EU", **({"csrf": csrf} if way == "field" else {})}
        headers = {"x-csrf-token": csrf} if way == "header" else {}
        answer = await browser.post("/agents/ours/porep/do/message", data=form, headers=headers)

    assert answer.json()["body"].startswith("text=prefer+hosts+in+the+EU")


@pytest.mark.parametrize("headers", [{"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}])
async def test_a_change_that_another_site_sends_through_a_login_in_front_of_us_is_refused(
    door: Door, headers: dict[str, str]
) -> None:
    async with door.program(ADMIN) as behind_a_proxy:
        answers = [await behind_a_proxy.post("/told", headers=each) for each in (headers, {})]

    assert [answer.status_code for answer in answers] == [403, 200]


async def test_the_csrf_token_of_another_session_is_worth_nothing(door: Door) -> None:
    async with door.browser() as mine, door.browser() as theirs:
        await sign_in(mine)
        await sign_in(theirs, VIEWER)
        answer = await mine.post("/told", headers={"x-csrf-token": await csrf_of(theirs)})

    assert answer.status_code == 403


async def test_a_body_that_is_too_large_is_refused_however_it_is_sent(door: Door) -> None:
    async def in_parts() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * (LARGEST_BODY // 2)

    async with door.program(ADMIN) as program:
        answers = [await program.post("/told", content=each) for each in (b"x" * (LARGEST_BODY + 1), in_parts())]

    assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [(413, "TooLarge")] * 2


async def test_who_tries_many_tokens_has_to_wait_and_keeps_out_nobody_who_is_known(door: Door) -> None:
    async with door.program() as stranger, door.program(ADMIN) as admin:
        await admin.get("/told")
        tried = [await stranger.get("/told", headers={"authorization": f"Bearer guess-{n}"}) for n in range(70)]
        known = await admin.get("/told")
        door.later(seconds=5)
        again = await stranger.get("/told", headers={"authorization": "Bearer guess"})

    assert tried[-1].status_code == 429
    assert int(tried[-1].headers["retry-after"]) >= 1
    assert [asked for asked in door.callers.asked if asked == ("name", "guess-69")] == []
    assert known.status_code == 200
    assert again.status_code == 401


async def test_an_api_server_that_is_away_lets_nobody_in_and_says_so(door: Door) -> None:
    async with door.browser() as browser, door.program(ADMIN) as program:
        await sign_in(browser)
        door.callers.away = True
        page, api = await browser.get("/told"), await program.get("/api/v1/namespaces/ours/told")

    assert page.status_code == api.status_code == 503
    assert "does not answer" in page.text
    assert api.json()["error"] == "TryLater"
    assert api.headers["retry-after"]


async def test_every_answer_carries_the_headers(door: Door) -> None:
    async with door.browser() as browser, door.program(ADMIN) as program:
        answers = [
            await browser.get("/login"),
            await browser.get("/told"),
            await program.get("/told"),
            await program.get("/nowhere"),
            await program.get("/agents/theirs/x"),
            await program.put("/told"),
            await program.get("/api/v1/fault"),
            await browser.get("/metrics"),
        ]

    assert [answer.status_code for answer in answers] == [200, 303, 200, 404, 200, 405, 500, 200]
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["content-security-policy"]


async def test_a_fault_of_ours_tells_nothing_of_itself(door: Door) -> None:
    async with door.program(ADMIN) as program:
        answer = await program.get("/api/v1/fault")

    assert (answer.status_code, answer.json()["error"]) == (500, "Fault")
    assert "secret" not in answer.text


async def test_without_login_everybody_on_this_machine_is_one_visitor() -> None:
    door = Door(MadeUpCallers(), without_login=ADMIN)
    async with door.browser() as browser:
        csrf = await csrf_of(browser)
        mine = await browser.post("/told", headers={"x-csrf-token": csrf})
        blind = await browser.post("/told")
        door.later(days=400)

        assert (await browser.get("/told")).status_code == 200
    assert (mine.status_code, blind.status_code) == (200, 403)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "10.0.0.1", "[::"])
async def test_without_login_no_other_name_leads_here(host: str) -> None:
    door = Door(MadeUpCallers(), without_login=ADMIN)
    async with door.browser() as browser:
        answers = [await browser.get(path, headers={"host": host}) for path in ("/told", "/metrics", "/api/v1/x")]

    assert [answer.status_code for answer in answers] == [403, 403, 403]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"])
async def test_without_login_the_names_of_this_machine_lead_here(host: str) -> None:
    door = Door(MadeUpCallers(), without_login=ADMIN)
    async with door.browser() as browser:
        assert (await browser.get("/told", headers={"host": host})).status_code == 200
