"""What strangers wrote cannot command the terminal; programs get what was answered."""

import io
import json

import pytest
import yaml
from rich.console import Group
from rich.text import Text

from fleetagent.plugin.terminal import Terminal, cell, drawn, line, plain, table, written

HOSTILE = "RTX\x1b[2J\x1b]0;owned\x07 5090\x9b31m\u202e\u2066 \u200b[bold red]x[/]\r\nnext"


def test_no_control_or_escape_sequence_and_no_turned_direction_reaches_the_terminal() -> None:
    assert plain(HOSTILE) == "RTX[2J]0;owned 509031m [bold red]x[/]\nnext"


def test_a_cell_is_one_line_and_never_markup() -> None:
    shown = drawn(table(("GPU", "X"), [(HOSTILE, None)]))

    assert shown == "GPU                                          X\nRTX[2J]0;owned 509031m [bold red]x[/] next   -\n"


@pytest.mark.parametrize("value", [None, "", " \x1b "])
def test_nothing_is_a_dash(value: object) -> None:
    assert str(cell(value)) == "-"


def test_writing_with_joined_emoji_stays_as_it_is() -> None:
    assert line("👩\u200d🚀 ok") == "👩\u200d🚀 ok"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_every_character_and_terminals_none_that_commands(form: str) -> None:
    text = written({"gpu": HOSTILE}, form)

    assert (json.loads(text) if form == "json" else yaml.safe_load(text)) == {"gpu": HOSTILE}
    assert "\x1b" not in text
    assert "\x9b" not in text


def test_a_pipe_gets_no_colour_no_cut_line_and_no_blanks_at_the_end() -> None:
    out = io.StringIO()

    Terminal(None, out).show(Group(Text("x" * 500, "bold red"), table(("A", "B"), [("1", "")])))

    assert out.getvalue() == "x" * 500 + "\nA   B\n1   -\n"


class NarrowScreen(io.StringIO):
    """A terminal, as far as Python can tell."""

    def isatty(self) -> bool:
        return True


def test_on_a_narrow_screen_no_figure_is_cut_and_sentences_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COLUMNS", "20"), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    out = NarrowScreen()

    Terminal(None, out).show(table(("USD", "TOKENS", "WHY"), [("1234.567891", "120345", "word " * 20)], right=("USD",)))

    assert "1234.567891   120345   word" in out.getvalue()
    assert out.getvalue().count("word") == 20
    assert "\x1b[3" not in out.getvalue()  # NO_COLOR


@pytest.mark.parametrize(
    ("form", "for_programs", "wide"), [(None, False, False), ("wide", False, True), ("json", True, False)]
)
def test_the_form_says_for_whom_it_is(form: str | None, for_programs: bool, wide: bool) -> None:  # noqa: FBT001
    terminal = Terminal(form, io.StringIO())

    assert (terminal.for_programs, terminal.wide) == (for_programs, wide)
