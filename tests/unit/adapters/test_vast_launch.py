"""Renting, asking for one machine, and destroying: what is certain, and what is not."""

from typing import Any

import httpx
import pytest

from fleetagent.errors import BadResource, Denied, FleetAgentError, LeaseLost, TryLater, Unclear
from support.vast import a_machine_row, a_market, always, an_order, failing

RENTED = {"success": True, "new_contract": 50_300_001, "instance_api_key": "key-of-the-machine"}
GONE = "error 404/3603: no_such_ask Instance type by id 4711 is not available."


def refusal(code: str, msg: str = "", **more: Any) -> dict[str, Any]:
    return {"success": False, "error": code, "msg": msg, **more}


async def test_an_order_is_sent_once_as_the_market_wants_it() -> None:
    market = always(RENTED)

    assert await a_market(market).launch(an_order(onstart="echo hi")) == "50300001"

    (request,) = market.requests
    assert (request.method, request.url.path, request.url.query) == ("PUT", "/api/v0/asks/4711/", b"")
    assert market.bodies == [
        {
            "client_id": "me",
            "image": "example/curio-prover:latest",
            "disk": 250,
            "label": "fa/abc/1",
            "env": {"FLEETAGENT_URL": "http://workers.test/workers/secret-token-of-a-machine"},
            "onstart": "echo hi",
            "runtype": "args",
            "cancel_unavail": True,
            "target_state": "running",
        }
    ]


async def test_an_order_without_onstart_sends_none() -> None:
    market = always(RENTED)

    await a_market(market).launch(an_order())

    assert "onstart" not in market.bodies[0]


@pytest.mark.parametrize(
    ("status", "answer", "code"),
    [
        (404, refusal("invalid_args", GONE), "OfferGone"),
        (410, refusal("no_such_ask", "Offer 4711 is no longer available"), "OfferGone"),
        (400, refusal("no_such_ask", GONE), "OfferGone"),
        (200, refusal("no_such_ask", GONE), "OfferGone"),
        (400, {"message": GONE}, "OfferGone"),
        (400, refusal("insufficient_credit"), "InsufficientCredit"),
        (402, refusal("insufficient_credit"), "InsufficientCredit"),
        (400, refusal("spend_rate_limit"), "SpendRateLimit"),
        (400, refusal("missing_billing"), "MissingBilling"),
        (400, refusal("invalid_args", "disk must be at least 8 GB"), "OrderRefused"),
        (400, refusal("label_too_long"), "OrderRefused"),
        (410, refusal("deprecated_endpoint"), "OrderRefused"),
    ],
)
async def test_a_certain_no_is_denied_with_its_reason(status: int, answer: Any, code: str) -> None:
    with pytest.raises(Denied) as caught:
        await a_market(always(answer, status=status)).launch(an_order())

    assert caught.value.code == code


@pytest.mark.parametrize(
    ("status", "answer", "provider_id"),
    [
        (200, {"success": True}, None),
        (200, {"success": True, "new_contract": None}, None),
        (200, {"success": True, "new_contract": 0}, None),
        (200, {}, None),
        (200, "", None),
        (200, "<html>", None),
        (200, {"success": False}, None),
        (200, refusal("a code of next year"), None),
        (400, refusal("start_failed", new_contract=50_300_001), "50300001"),
        (410, refusal("no_such_ask", GONE, new_contract=50_300_001), "50300001"),
        (429, refusal("rate_limit_exceeded", new_contract=50_300_001), "50300001"),
        (401, refusal("auth_error", new_contract=50_300_001), "50300001"),
        (500, {"success": True, "new_contract": 50_300_001}, "50300001"),
        (400, refusal("a code of next year"), None),
        (400, "Bad Request", None),
        (403, "<html>checking your browser</html>", None),
        (404, "<html>not found</html>", None),
        (307, "", None),
        (500, refusal("no_such_ask", GONE), None),
        (502, "<html>bad gateway</html>", None),
        (504, "<html>gateway time-out</html>", None),
    ],
)
async def test_whatever_may_have_rented_is_unclear_and_never_repeated(
    status: int, answer: Any, provider_id: str | None
) -> None:
    market = always(answer, status=status)

    with pytest.raises(Unclear) as caught:
        await a_market(market).launch(an_order())

    assert caught.value.provider_id == provider_id
    assert len(market.requests) == 1


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (httpx.ConnectError, TryLater),
        (httpx.ConnectTimeout, TryLater),
        (httpx.PoolTimeout, TryLater),
        (httpx.ReadTimeout, Unclear),
        (httpx.ReadError, Unclear),
        (httpx.WriteError, Unclear),
        (httpx.WriteTimeout, Unclear),
        (httpx.RemoteProtocolError, Unclear),
        (httpx.ProxyError, Unclear),
        (httpx.DecodingError, Unclear),
    ],
)
async def test_only_what_never_left_may_be_tried_later(
    broken: type[httpx.HTTPError], error: type[FleetAgentError]
) -> None:
    market = failing(broken)

    with pytest.raises(FleetAgentError) as caught:
        await a_market(market).launch(an_order())

    assert isinstance(caught.value, error)
    assert len(market.requests) == 1


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (httpx.Response(429, text="API requests too frequent: endpoint threshold=4.5"), 15),
        (httpx.Response(429, json=refusal("rate_limit_exceeded", retry_after=12)), 12),
        (httpx.Response(429, text="slow down", headers={"Retry-After": "40"}), 40),
        (httpx.Response(429, text="slow down", headers={"Retry-After": "Thu, 01 Jan 1970 00:17:10 GMT"}), 30),
        (httpx.Response(429, text="slow down", headers={"Retry-After": "soon"}), 15),
    ],
    ids=["plain text", "in the body", "in the header", "a date", "nonsense"],
)
async def test_a_create_that_came_too_early_rented_nothing(answer: httpx.Response, seconds: float) -> None:
    with pytest.raises(TryLater) as caught:
        await a_market(always(answer)).launch(an_order())

    assert caught.value.retry_after_seconds == seconds


async def test_after_a_429_no_create_leaves_before_its_time() -> None:
    market = always(httpx.Response(429, text="slow down", headers={"Retry-After": "40"}))
    client = a_market(market)
    for _ in range(3):
        with pytest.raises(TryLater):
            await client.launch(an_order())

    assert len(market.requests) == 1


async def test_a_refused_key_rents_nothing_and_is_for_the_owner_to_mend() -> None:
    with pytest.raises(BadResource) as caught:
        await a_market(always(refusal("auth_error", "Invalid user key"), status=404)).launch(an_order())

    assert caught.value.reason == "MarketKeyRefused"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"label": "x" * 257}, "label"),
        ({"image": "x" * 1025}, "image"),
        ({"onstart": "x" * 4097}, "onstart"),
        ({"disk_gb": 7}, "disk"),
        ({"env": {"TOKEN": "s" * 257}}, "TOKEN"),
        ({"env": {"N" * 257: "v"}}, "name"),
        ({"env": {f"N{n}": "v" * 250 for n in range(140)}}, "environment"),
    ],
    ids=["label", "image", "onstart", "disk", "env value", "env name", "env"],
)
async def test_an_order_that_cannot_fit_is_denied_before_it_leaves(changes: dict[str, Any], word: str) -> None:
    market = always(RENTED)

    with pytest.raises(Denied, match=word) as caught:
        await a_market(market).launch(an_order(**changes))

    assert caught.value.code == "OrderRefused"
    assert "sss" not in str(caught.value)
    assert market.requests == []


@pytest.mark.parametrize("offer_id", ["", "x", "1/../../users", "0"])
async def test_an_offer_that_cannot_be_is_gone_before_anything_leaves(offer_id: str) -> None:
    market = always(RENTED)

    with pytest.raises(Denied):
        await a_market(market).launch(an_order(offer_id=offer_id))

    assert market.requests == []


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, {"success": True}),
        (404, refusal("no_such_instance")),
        (404, refusal("not_found")),
        (200, refusal("no_such_instance")),
        (200, "null"),
    ],
)
async def test_what_is_destroyed_or_gone_already_is_done(status: int, answer: Any) -> None:
    market = always(answer, status=status)

    await a_market(market).destroy("50300001")

    (request,) = market.requests
    assert (request.method, request.url.path, request.content) == ("DELETE", "/api/v0/instances/50300001/", b"{}")


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (404, refusal("auth_error", "Invalid user key"), BadResource),
        (404, "<html>not found</html>", TryLater),
        (404, {"detail": "Not Found"}, TryLater),
        (200, {"success": False}, TryLater),
        (200, "", TryLater),
        (200, {}, TryLater),
        (500, refusal("not_found"), TryLater),
        (429, "too frequent", TryLater),
        (302, "", TryLater),
    ],
)
async def test_a_destroy_that_is_not_certain_is_tried_again_later(
    status: int, answer: Any, error: type[FleetAgentError]
) -> None:
    with pytest.raises(FleetAgentError) as caught:
        await a_market(always(answer, status=status)).destroy("50300001")

    assert type(caught.value) is error


async def test_a_destroy_whose_answer_was_lost_is_repeated() -> None:
    market = always(httpx.Response(504, text="<html>"), httpx.Response(404, json=refusal("no_such_instance")))

    await a_market(market).destroy("50300001")

    assert len(market.requests) == 2


@pytest.mark.parametrize(("status", "answer"), [(200, {"instances": None}), (404, refusal("no_such_instance"))])
async def test_a_machine_that_the_market_does_not_have_is_none(status: int, answer: Any) -> None:
    market = always(answer, status=status)

    assert await a_market(market).machine("50300001") is None
    assert str(market.requests[0].url) == "http://market.test/api/v0/instances/50300001/?owner=me"


async def test_a_machine_that_is_there_is_shown() -> None:
    machine = await a_market(always({"instances": a_machine_row(50_300_001)})).machine("50300001")

    assert machine
    assert (machine.provider_id, machine.label) == ("50300001", "fa/abc/50300001")


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (200, {}, TryLater),
        (200, "null", TryLater),
        (200, {"instances": []}, TryLater),
        (200, {"instances": {}}, TryLater),
        (200, {"instances": a_machine_row(7)}, TryLater),
        (200, {"success": False, "instances": None}, TryLater),
        (404, "<html>not found</html>", TryLater),
        (404, refusal("auth_error", "Invalid user key"), BadResource),
        (410, refusal("deprecated_endpoint"), TryLater),
        (503, {"instances": None}, TryLater),
    ],
)
async def test_no_other_answer_says_that_a_machine_is_gone(
    status: int, answer: Any, error: type[FleetAgentError]
) -> None:
    with pytest.raises(error):
        await a_market(always(answer, status=status)).machine("50300001")


async def test_the_account_has_an_id() -> None:
    assert (await a_market(always({"id": 412_001, "credit": 5.0})).account()).id == "412001"


@pytest.mark.parametrize("answer", [{}, {"id": None}, {"email": "a@b.example"}, "null", "<html>"])
async def test_an_account_without_an_id_is_not_known(answer: Any) -> None:
    with pytest.raises(TryLater):
        await a_market(always(answer)).account()


@pytest.mark.parametrize("effect", ["launch", "destroy"])
async def test_nothing_is_sent_when_the_last_look_before_the_call_says_no(effect: str) -> None:
    market = always({"success": True, "new_contract": 50300001})
    client = a_market(market)

    async def no_longer() -> None:
        raise LeaseLost("another process owns this agent now")

    with pytest.raises(LeaseLost):
        await (client.launch(an_order(), no_longer) if effect == "launch" else client.destroy("50300001", no_longer))

    assert market.requests == []


async def test_many_machines_are_destroyed_in_one_call_by_their_ids() -> None:
    market = always({"success": True})

    await a_market(market).destroy_together(["50300001", "50300002"])

    (request,) = market.requests
    assert (request.method, request.url.path) == ("DELETE", "/api/v0/instances/")
    assert market.bodies == [{"instance_ids": [50_300_001, 50_300_002]}]


@pytest.mark.parametrize("ids", [[], ["1"] * 65, ["1", "0"], ["1", "../2"], ["1", "all"], ["1", ""], ["1", " 2"]])
async def test_nothing_but_ids_of_machines_is_ever_sent_to_destroy_many(ids: list[str]) -> None:
    market = always({"success": True})

    with pytest.raises(Denied):
        await a_market(market).destroy_together(ids)

    assert market.requests == []


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, {"success": False}),
        (200, {}),
        (200, ""),
        (404, {"success": False, "error": "no_such_instance"}),
        (405, "Method Not Allowed"),
        (429, "API requests too frequent"),
        (500, ""),
        (504, "<html></html>"),
    ],
)
async def test_many_that_may_not_all_be_gone_are_for_the_caller_to_ask_one_by_one(status: int, answer: Any) -> None:
    market = always(answer, status=status)

    with pytest.raises(TryLater):
        await a_market(market).destroy_together(["1", "2"])

    assert len(market.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "error": "insufficient_credit", "msg": "no money"},
        {"success": False, "error": "invalid_args", "msg": "error: insufficient_credit for this order"},
        {"success": False, "msg": "insufficient_credit"},
    ],
)
@pytest.mark.parametrize("status", [200, 400, 402, 403])
async def test_want_of_credit_is_understood_wherever_it_is_said(status: int, answer: Any) -> None:
    with pytest.raises(Denied) as caught:
        await a_market(always(answer, status=status)).launch(an_order())

    assert caught.value.code == "InsufficientCredit"
