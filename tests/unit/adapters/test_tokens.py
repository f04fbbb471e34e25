import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.tokens import TiktokenTokens

OFFLINE = """
import sys
def no_network(event, _):
    if event.startswith("socket."):
        raise RuntimeError("the network was asked: " + event)
sys.addaudithook(no_network)
from fleetagent.adapters.tokens import TiktokenTokens
print(TiktokenTokens().estimate("Kubernetes keeps it running."))
"""


@pytest.fixture(scope="module")
def tokens() -> TiktokenTokens:
    return TiktokenTokens()


def test_the_vocabulary_comes_without_any_network(tmp_path: Path) -> None:
    # An empty cache folder: what an earlier run might have downloaded can't help.
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        env={"TIKTOKEN_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == ("6", "")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("1", 1),
        ("12", 2),
        ("123", 3),
        ("33014980", 8),
        ("<|endoftext|>", 7),
    ],
)
def test_counts_are_those_of_a_model_that_takes_each_digit_alone(tokens: TiktokenTokens, text: str, count: int) -> None:
    assert tokens.estimate(text) == count


def test_an_instance_listing_costs_far_more_than_a_quarter_of_its_characters(tokens: TiktokenTokens) -> None:
    rows = [{"id": 33014980 + n, "usd_per_hour": 0.4417 + n / 1e4, "rate": 68.25 + n} for n in range(50)]
    text = json.dumps(rows)

    assert tokens.estimate(text) > 1.8 * len(text) / 4


@pytest.mark.parametrize("character", ["a", " ", "!", "1"])
def test_a_long_run_of_one_character_takes_no_time_to_speak_of(tokens: TiktokenTokens, character: str) -> None:
    started = time.process_time()

    assert tokens.estimate(character * 4_000_000) > 0
    assert time.process_time() - started < 1.5  # uncut, spaces take twice as long, and four times for each doubling


def test_cutting_into_chunks_changes_the_count_by_no_more_than_a_token_each(tokens: TiktokenTokens) -> None:
    word = "the fleet is on target; "
    assert tokens.estimate(word * 4000) == pytest.approx(tokens.estimate(word * 100) * 40, rel=0.005)


@given(text=st.text(alphabet=st.characters(exclude_categories=()), max_size=200))
def test_any_string_has_a_count_lone_surrogates_and_controls_included(tokens: TiktokenTokens, text: str) -> None:
    assert 0 <= tokens.estimate(text) <= 4 * len(text) + 4
