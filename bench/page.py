"""bench/results.md: a section for each figure, of which a new measurement replaces its own and no other."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results.md"

HEAD = """\
# Figures

Measured by `make bench`, which writes this file; `make bench ARGS="--only latency"` replaces one section. The parts are
real: a Kubernetes API server, Postgres, the operator as a process. Market and model are simulated, on the same machine.
"""

BY_HAND = """\
## Clone to first run

Measured by hand, on two cores, with nothing in the caches; goal: at most 10 minutes. This section is not overwritten.

| what | time |
|---|---|
| `git clone` to the end of the first run of `make dev` | not measured yet |
"""


def met(good: bool) -> str:  # noqa: FBT001  # a column
    """What stands beside a goal."""
    return "yes" if good else "no"


@dataclass(frozen=True, slots=True)
class Table:
    """A figure as people read it: what was done, and the numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: str

    def markdown(self) -> str:
        """The words, then the table."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join([self.words, "", *(f"| {' | '.join(line)} |" for line in lines)])


@dataclass(frozen=True, slots=True)
class Parts:
    """Several tables under one heading."""

    tables: Sequence[Table]

    def markdown(self) -> str:
        """One after the other."""
        return "\n\n".join(table.markdown() for table in self.tables)


def write(sections: Mapping[str, str], path: Path = RESULTS) -> None:
    """Replace these sections (by their heading), keep the others as they stand."""
    kept = _sections(path.read_text(encoding="utf-8")) if path.exists() else {}
    by_hand = _sections(BY_HAND)
    merged = {**by_hand, **kept, **sections}
    in_order = [*(h for h in merged if h not in by_hand), *by_hand]
    body = "\n\n".join(f"## {heading}\n\n{merged[heading].strip()}" for heading in in_order)
    path.write_text(f"{HEAD}\n{body}\n", encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """What stands under each second-level heading."""
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {heading.strip(): body.strip() for heading, _, body in (part.partition("\n") for part in parts)}
