"""What /healthz and /readyz go by: each source is looked at by itself."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from yarl import URL

from fleetagent.entrypoints import signs as module
from fleetagent.entrypoints.signs import Signs

COLLECTION = "/apis/fleetagent.dev/v1alpha1/namespaces/{}/fleetagents"
ONE, TWO = COLLECTION.format("one"), COLLECTION.format("two")
PEERING = "/apis/kopf.dev/v1/namespaces/one/kopfpeerings/fleetagent"
SILENT = 600.0


class Clock:
    """Moves when the test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Answer:
    """A response, of which only the head counts."""

    status: int = 200
    reason: str = "OK"
    closed: bool = False

    @property
    def ok(self) -> bool:
        return self.status < 400


@dataclass
class Asked:
    """A request of kopf's."""

    method: str
    url: URL


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def ask(
    signs: Signs, path: str, *, method: str = "GET", watch: bool = False, answer: Answer | BaseException | None = None
) -> Answer:
    """Let one request by; what is answered is the response."""
    url = URL(f"https://api:6443{path}" + ("?watch=true" if watch else ""))
    found: Any = answer or Answer()

    async def handler(_: Any) -> Any:
        if isinstance(found, BaseException):
            raise found
        return found

    request: Any = Asked(method, url)
    response: Any = await signs.notice(request, handler)
    return response  # type: ignore[no-any-return]


async def watch(signs: Signs, *paths: str) -> None:
    """List and watch, as kopf does."""
    for path in paths:
        await ask(signs, path)
        await ask(signs, path, watch=True)


async def test_it_is_ready_when_the_watch_of_each_namespace_is_open(clock: Clock) -> None:
    signs = Signs(("one", "two"), SILENT, clock=clock)
    signs.begin()
    assert signs.missing() == ["the watch of namespace one is not open", "the watch of namespace two is not open"]

    await watch(signs, ONE)
    await ask(signs, TWO)
    assert signs.missing() == ["the watch of namespace two is not open"]

    await ask(signs, TWO, watch=True, answer=Answer(403, "Forbidden"))
    assert signs.missing() == ["the watch of namespace two is not open (at last: 403 Forbidden)"]
    await watch(signs, TWO)
    assert signs.missing() == []


async def test_without_namespaces_one_watch_is_for_all_and_the_server_may_have_a_path(clock: Clock) -> None:
    signs = Signs((), SILENT, clock=clock)
    signs.begin()
    assert signs.missing() == ["the watch of all namespaces is not open"]

    await watch(signs, "/k8s/clusters/c-1/apis/fleetagent.dev/v1alpha1/fleetagents")

    assert signs.missing() == []


async def test_a_watch_that_has_ended_is_missing_unless_it_is_being_renewed(clock: Clock) -> None:
    signs = Signs(("one",), SILENT, clock=clock)
    signs.begin()
    answer = Answer()
    await ask(signs, ONE, watch=True, answer=answer)
    answer.closed = True
    clock.now += 240
    assert signs.missing() != []

    never = asyncio.Event()

    async def handler(_: Any) -> Any:
        await never.wait()

    request: Any = Asked("GET", URL(f"https://api{ONE}?watch=true"))
    renewing = asyncio.create_task(signs.notice(request, handler))
    for _ in range(3):
        await asyncio.sleep(0)
    assert signs.missing() == []
    clock.now += module.RENEWED_WITHIN_SECONDS
    assert signs.missing() != []

    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
    assert signs.missing() == ["the watch of namespace one is not open (at last: no answer)"]


async def test_each_source_must_be_heard_though_the_others_are(clock: Clock) -> None:
    signs = Signs(("one", "two"), SILENT, clock=clock)
    signs.begin()
    await watch(signs, ONE, TWO)
    signs.event("uid", beats=True)
    clock.now += SILENT
    assert signs.silence() == []

    clock.now += 12
    await watch(signs, ONE)
    signs.beat()
    assert signs.silence() == ["the watch of namespace two was not heard for 612 s"]

    await watch(signs, TWO)
    clock.now += SILENT + 1
    await watch(signs, ONE, TWO)
    assert signs.silence() == ["the beat of FleetAgents was not heard for 601 s"]
    signs.beat()
    assert signs.silence() == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401, "Unauthorized"), "401 Unauthorized"),
        (aiohttp.ClientConnectionError("cut"), "cut"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (TimeoutError(), "no answer"),
        (asyncio.CancelledError(), "no answer"),
    ],
)
async def test_what_failed_is_no_sign_of_life_and_is_said(
    clock: Clock, answer: Answer | BaseException, words: str
) -> None:
    signs = Signs(("one",), SILENT, clock=clock)
    signs.begin()
    clock.now += SILENT + 1
    if isinstance(answer, BaseException):
        with pytest.raises(type(answer)):
            await ask(signs, ONE, watch=True, answer=answer)
    else:
        await ask(signs, ONE, watch=True, answer=answer)

    assert signs.silence() == [f"the watch of namespace one was not heard for 601 s (at last: {words})"]


async def test_beats_are_missed_only_while_there_is_a_resource_that_has_them(clock: Clock) -> None:
    signs = Signs(("one",), SILENT, clock=clock)
    signs.begin()
    clock.now += SILENT + 1
    await watch(signs, ONE)
    assert signs.silence() == []

    signs.event("uid", beats=True)
    assert signs.silence() == []
    clock.now += SILENT + 1
    await watch(signs, ONE)
    assert signs.silence() == ["the beat of FleetAgents was not heard for 601 s"]
    signs.event("uid", beats=False)
    assert signs.silence() == []


async def test_a_replica_that_stands_by_needs_its_peering_alone(clock: Clock) -> None:
    others_first = True
    signs = Signs(("one",), SILENT, lifetime_seconds=15, stands_by=lambda: others_first, clock=clock)
    signs.begin()
    assert signs.missing() == ["the keep-alive of the peering is not answered (at last: it was not sent yet)"]

    await ask(signs, PEERING, method="PATCH")
    assert signs.missing() == []
    clock.now += 31
    assert signs.missing() == ["the keep-alive of the peering is not answered"]
    await ask(signs, PEERING, method="PATCH", answer=Answer(404, "Not Found"))
    assert signs.missing() == ["the keep-alive of the peering is not answered (at last: 404 Not Found)"]

    clock.now += SILENT
    (said,) = signs.silence()
    assert said == "the keep-alive of the peering was not heard for 631 s (at last: 404 Not Found)"

    await ask(signs, PEERING, method="PATCH")
    assert signs.silence() == []
    others_first = False
    assert signs.silence() == [], "silence begins when its turn comes"
    assert signs.missing() == ["the watch of namespace one is not open"]


async def test_the_peering_of_each_namespace_is_kept_alive(clock: Clock) -> None:
    signs = Signs(("one", "two"), SILENT, lifetime_seconds=15, clock=clock)
    signs.begin()
    other = PEERING.replace("one", "two")
    await watch(signs, ONE, TWO)
    await ask(signs, PEERING, method="PATCH")
    await ask(signs, other, method="PATCH")
    clock.now += 31
    await ask(signs, PEERING, method="PATCH")

    assert signs.missing() == [f"the keep-alive in {other} is not answered"]


async def test_a_task_of_ours_that_ended_is_named(clock: Clock) -> None:
    signs = Signs((), SILENT, clock=clock)
    signs.begin()
    task = asyncio.create_task(asyncio.sleep(0), name="events")
    signs.rely_on(task)
    assert signs.silence() == []

    await task

    assert signs.silence() == ["the task events has ended"]


async def test_a_watch_that_ended_at_once_is_opened_again_after_a_pause(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("fleetagent.entrypoints.signs.asyncio.sleep", sleep)
    signs = Signs(("one",), SILENT, clock=clock)
    signs.begin()
    await watch(signs, ONE)
    assert pauses == []

    clock.now += 0.25
    await watch(signs, ONE)
    assert pauses == [0.75]


async def asked_of_watch(signs: Signs, path: str = ONE) -> str:
    """What the next watch asks for, beside the stream."""
    request: Any = Asked("GET", URL(f"https://api:6443{path}?watch=true&resourceVersion=7&timeoutSeconds=240"))

    async def handler(_: Any) -> Any:
        return Answer()

    await signs.notice(request, handler)
    return str(request.url.query_string)


@pytest.mark.parametrize("refused", [Answer(403, "Forbidden"), Answer(500), aiohttp.ClientConnectionError("reset")])
async def test_the_watch_after_a_patch_that_failed_begins_with_every_resource(
    clock: Clock, refused: Answer | BaseException
) -> None:
    signs = Signs(("one", "two"), SILENT, clock=clock)
    with contextlib.suppress(aiohttp.ClientError):
        await ask(signs, f"{ONE}/porep", method="PATCH", answer=refused)

    await ask(signs, f"{TWO}/porep", method="PATCH")
    assert await asked_of_watch(signs) == "watch=true&timeoutSeconds=240"
    clock.now += 240
    assert await asked_of_watch(signs) == "watch=true&resourceVersion=7&timeoutSeconds=240"


@pytest.mark.parametrize("tried", [(Answer(404),), (Answer(500), Answer()), (Answer(),)])
async def test_the_watch_goes_on_where_it_was_when_a_patch_came_to_its_end(
    clock: Clock, tried: tuple[Answer, ...]
) -> None:
    signs = Signs(("one",), SILENT, clock=clock)
    for answer in tried:
        await ask(signs, f"{ONE}/porep", method="PATCH", answer=answer)

    assert await asked_of_watch(signs) == "watch=true&resourceVersion=7&timeoutSeconds=240"


async def test_the_watch_of_all_namespaces_begins_anew_for_a_resource_in_one(clock: Clock) -> None:
    signs, server = Signs((), SILENT, clock=clock), "/k8s/clusters/c-1"
    await ask(signs, f"{server}{ONE}/porep", method="PATCH", answer=Answer(403))

    every = f"{server}/apis/fleetagent.dev/v1alpha1/fleetagents"
    assert await asked_of_watch(signs, every) == "watch=true&timeoutSeconds=240"


def test_a_namespace_that_is_left_out_is_not_missed() -> None:
    signs = Signs(("one", "two"), SILENT)
    signs.leave_out(("two",))
    signs.begin()

    assert signs.namespaces == ("one",)
    assert [said for said in signs.missing() if "two" in said] == []
    assert [said for said in signs.missing() if "one" in said] != []
