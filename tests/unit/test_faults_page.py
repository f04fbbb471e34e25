"""The page that says which test plays which fault names tests that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"\[`([\w/]+\.py)::(\w+)`\]", (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_each_test_that_is_named_is_there(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_it_names_tests() -> None:
    assert len(NAMED) > 30
