"""No secret of ours leaves in words: not in a log, not in a condition, however a server spells what it was sent."""

import base64
import html
import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.model.redact import HIDDEN, redacted, shortened

KEY = "my-own-key-1234"


@pytest.mark.parametrize(
    "text",
    [
        f"bad key {KEY}",
        f'{{"headers": {{"Authorization": "Bearer {KEY}"}}}}',
        f"https://user:{KEY}@host/v1",
        f"GET /v1?key={KEY}&a=b",
    ],
)
def test_our_own_key_is_hidden_wherever_it_is_echoed(text: str) -> None:
    assert KEY not in redacted(text, [KEY])


def test_a_secret_that_contains_another_is_hidden_whole() -> None:
    assert redacted("saw abcd-efgh", ["abcd", "abcd-efgh"]) == "saw [hidden]"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.def~ghi==", "abc.def"),
        ("authorization=Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("Incorrect API key provided: sk-proj-Ab12****************wxyz.", "wxyz"),
        ("Incorrect API key provided: sk-proj-Ab12.", "Ab12"),
        ('{"api_key": "0123456789"}', "0123456789"),
        ("x-api-key: 0123456789", "0123456789"),
        ('{"password":"hunter2!"}', "hunter2"),
        ("token hf_abcdefghijk used", "hf_abcdefghijk"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIi"),
        ("postgresql://u:pw1234@db:5432/x", "pw1234"),
        ("https://h/v1?api-version=1&sig=abcdef", "abcdef"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    assert secret not in redacted(text, [])


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 4097 tokens (3012 in the messages).",
        "task-force disk-250 risk-free",
        "Rate limit reached on tokens per min (TPM): Limit 30000",
        "The model `qwen3.5-122b` does not exist. http://llm.svc:8000/v1",
    ],
)
def test_ordinary_sentences_stay_as_they_are(text: str) -> None:
    assert redacted(text, ["", "ok"]) == text


def test_a_long_text_becomes_one_short_line() -> None:
    assert shortened("a\n b\r\nc " * 10, 9) == "a b c a …"


ODD_KEY = 'a/b+c=d"e&f<g%h\\i-1234'


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


@pytest.mark.parametrize("key", [KEY, ODD_KEY, "0123456789abcdef" * 4, "ab12", "x" * 200, "a~~~???>>>z"])
@pytest.mark.parametrize(
    "spelled",
    [
        str,
        quote,
        quote_plus,
        lambda key: quote(key, safe=""),
        lambda key: quote(quote(key, safe=""), safe=""),
        percent,
        lambda key: percent(key).upper(),
        lambda key: json.dumps(key)[1:-1],
        lambda key: json.dumps(json.dumps(key))[3:-3],
        lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
        lambda key: "".join(f"\\u{ord(character):04X}" for character in key),
        html.escape,
        lambda key: "".join(f"&#{ord(character)};" for character in key),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f":{key}".encode()).decode(),
        lambda key: base64.b64encode(f"me:{key}".encode()).decode(),
        lambda key: base64.b64encode(f"user:{key}, and more".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"token:{key}".encode()).decode().rstrip("="),
        lambda key: key.encode().hex(),
        lambda key: key.encode().hex().upper(),
        lambda key: "".join(f"\\x{ord(character):02x}" for character in key),
    ],
)
def test_our_own_key_is_hidden_however_it_is_spelled(spelled: Callable[[str], str], key: str) -> None:
    echoed = spelled(key)

    said = redacted(f"upstream saw [{echoed}] and refused", [key])

    assert HIDDEN in said
    assert echoed not in said
    assert said.startswith("upstream saw [")
    assert said.endswith("] and refused")


@given(secret=st.text("abcXYZ019-_./+", min_size=12, max_size=60), before=st.binary(max_size=9), after=st.binary())
def test_a_key_inside_base64_leaves_no_more_than_its_edges(secret: str, before: bytes, after: bytes) -> None:
    echoed = base64.b64encode(before + secret.encode() + after).decode()

    said = redacted(echoed, [secret])

    assert HIDDEN in said
    left = max(said.split(HIDDEN), key=len)
    assert len(left) <= (max(len(before), len(after)) + 4) * 4 // 3 + 4


def test_what_holds_no_key_is_not_touched_by_looking_for_one() -> None:
    text = "This model's maximum context length is 4097 tokens (3012 in the messages)."

    assert redacted(text, [KEY, ODD_KEY, "ab12"]) == text


LONG_KEY = "0123456789abcdef-QWERTZUIOPASD"


@pytest.mark.parametrize("fold", ["\n", "\r\n  ", "\u200b", "\\n", "<wbr>", " ", "\u00ad"], ids=repr)
def test_a_key_that_is_folded_is_hidden_whole(fold: str) -> None:
    folded = fold.join(LONG_KEY[at : at + 5] for at in range(0, len(LONG_KEY), 5))

    assert redacted(f"bad key {folded} sent", [LONG_KEY]) == "bad key [hidden] sent"


@pytest.mark.parametrize(
    "spelled",
    [str, lambda key: key.encode().hex(), lambda key: base64.b64encode(f"ab:{key}".encode()).decode()],
    ids=["plain", "hex", "base64"],
)
def test_half_a_key_is_hidden_where_somebody_cut_or_parted_it(spelled: Callable[[str], str]) -> None:
    echoed = spelled(LONG_KEY)
    half = len(echoed) // 2

    for text in (echoed[:half], echoed[half:], f"{echoed[:half]}; {echoed[half:]}", f"{echoed[:half]}***{echoed[-9:]}"):
        said = redacted(f"it said {text} and more", [LONG_KEY])
        assert [echoed[at : at + 8] for at in range(len(echoed) - 7) if echoed[at : at + 8] in said] == []
        assert (said[:8], said[-9:]) == ("it said ", " and more")


@pytest.mark.parametrize(
    "text", ["-eyJ", "-eyJaaaaaaaaaaaa", "bearer ", "api_key ", "a://b:", "\\", "%25", "&#0", "0 ", "0\n", "0123456789"]
)
def test_no_text_of_a_server_takes_long_to_clean(text: str) -> None:
    began = time.perf_counter()

    redacted(text * (64_000 // len(text)), [LONG_KEY])

    assert time.perf_counter() - began < 1  # while this goes on no other agent does anything
