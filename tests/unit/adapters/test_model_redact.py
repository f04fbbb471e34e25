import pytest

from fleetagent.adapters.model.redact import redacted, shortened

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
