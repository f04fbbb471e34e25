"""What people and scripts get to see: tables, JSON, YAML; nothing in it can command the terminal."""

import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TextIO

import yaml
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fleetagent.domain.text import clean

WIDE_ENOUGH = 100_000
"""For a pipe no line is cut or folded."""
NOTHING = "-"
GAP = 3
FOLDED_CHARS = 30
"""So wide at least is the column of sentences."""


def plain(text: object) -> str:
    """Text that cannot steer a terminal: no control or escape sequence, no turned direction, no invisible character."""
    return "".join(c for c in clean(str(text)) if c in "\n\t\u200d" or unicodedata.category(c) != "Cf")


def line(text: object) -> str:
    """The same on one line; nothing becomes a dash."""
    return " ".join(plain(text).split()) or NOTHING


def cell(value: object, style: str = "") -> Text:
    """What stands in a table: never read as markup, on one line."""
    return Text(NOTHING if value is None else line(value), style)


class Sheet(Table):
    """A table that knows how wide it must be for no figure in it to be cut: a cut figure is a wrong one."""

    least_width = 0


def table(columns: Sequence[str], rows: Iterable[Sequence[Text | object]], *, right: Iterable[str] = ()) -> Sheet:
    """Columns as kubectl sets them; those named in `right` hold figures. The last one is folded where room is short."""
    made = Sheet(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0), collapse_padding=True)
    figures = set(right)
    cells = [[each if isinstance(each, Text) else cell(each) for each in row] for row in rows]
    widths = [max([cell_len(name), *(row[number].cell_len for row in cells)]) for number, name in enumerate(columns)]
    last = len(columns) - 1
    for number, name in enumerate(columns):
        justify: Literal["right", "left"] = "right" if name in figures else "left"
        made.add_column(name, justify=justify, no_wrap=number != last, overflow="fold")
    for row in cells:
        made.add_row(*row)
    made.least_width = sum(width + GAP for width in widths[:last]) + min(widths[last], FOLDED_CHARS)
    return made


class Terminal:
    """Standard output, however it is wanted. Colours only where a person looks and NO_COLOR is not set."""

    def __init__(self, form: str | None = None, out: TextIO | None = None) -> None:
        self.form = form
        """None or wide: for people. json or yaml: for programs."""
        self._out = out or sys.stdout
        self.console = _console(self._out)

    @property
    def for_programs(self) -> bool:
        """Whether the answer shall be given as it came."""
        return self.form in {"json", "yaml"}

    @property
    def wide(self) -> bool:
        """Whether a person wants all columns."""
        return self.form == "wide"

    def show(self, picture: RenderableType) -> None:
        """For people; in a pipe no line is cut or folded."""
        if self.console.is_terminal:
            width = max(self.console.width, _least_width(picture))
            _console(self._out, width).print(picture)
        else:
            self._out.write(drawn(picture))

    def say(self, sentence: str) -> None:
        """One line for people."""
        self.console.print(Text(line(sentence)), soft_wrap=True)

    def pass_on(self, text: str) -> None:
        """A line for programs, as it came."""
        self._out.write(f"{text}\n")

    def flush(self) -> None:
        """Let whoever reads a pipe see it now."""
        self._out.flush()

    def give(self, answer: Any) -> None:
        """For programs: what is not ASCII is escaped in JSON, and what cannot be printed in YAML."""
        self._out.write(written(answer, self.form or "json"))


def _console(out: TextIO, width: int | None = None) -> Console:
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False)


def _least_width(picture: RenderableType) -> int:
    """Lines that are longer than the terminal's are broken by it: nothing gets lost."""
    if isinstance(picture, Group):
        return max(map(_least_width, picture.renderables), default=0)
    return picture.least_width if isinstance(picture, Sheet) else 0


def written(answer: Any, form: str) -> str:
    """JSON or YAML, ending with a line break."""
    if form == "yaml":
        text: str = yaml.safe_dump(answer, sort_keys=False, allow_unicode=True, width=1000)
        return text
    return json.dumps(answer, indent=2) + "\n"


def drawn(picture: RenderableType, width: int = WIDE_ENOUGH) -> str:
    """What a pipe would get."""
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, force_terminal=False).print(picture)
    return "\n".join(each.rstrip() for each in out.getvalue().splitlines()) + "\n"
