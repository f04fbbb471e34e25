"""The little of Markdown that generated pages need."""
# ruff: noqa: INP001 - docs/ is no package

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a pipe inside a cell is escaped, a line break becomes a space."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def code(text: object) -> str:
    """Inline code; nothing stays nothing."""
    return f"`{text}`" if str(text) else ""


def first_sentence_of(docstring: str | None) -> str:
    """A docstring's first paragraph on one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
