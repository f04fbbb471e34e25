"""Answers that another version of us gave."""

import argparse

import pytest

from fleetagent.errors import BadReply
from fleetagent.plugin.past_pictures import runs_picture
from fleetagent.plugin.person import Person


def a_person(output: str | None) -> Person:
    return Person(argparse.Namespace(output=output, watch=False))


def test_what_cannot_be_drawn_is_one_sentence_and_programs_get_it_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = {"items": [{"of": "another version"}]}
    drawing = (answer, lambda: runs_picture(answer["items"], a_person(None).now(), wide=False))

    with pytest.raises(BadReply, match=r"KeyError.*use the plugin of the operator's own version"):
        a_person(None).show(lambda: drawing)

    assert a_person("yaml").show(lambda: drawing) == 0
    assert capsys.readouterr().out == "items:\n- of: another version\n"
