"""The series of all agents, one column for each set of labels: small to keep, and quick to write out.

prometheus-client's own children take a kilobyte and two locks each, and ten microseconds at each scrape: with a
thousand agents that is fifty megabytes, and half a second in which nothing else runs. All of this happens in one
thread, so a number in a dict does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleetagent.adapters.metrics.catalogue import Family
from fleetagent.domain.records import AgentKey

Labels = tuple[str, ...]
ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class AgentSeries:
    """What each agent's series say now. A series is there from its first value on, until the agent is forgotten."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._columns: dict[Family, dict[Labels, dict[AgentKey, float]]] = {family: {} for family in families}
        self._names: dict[AgentKey, str] = {}

    def add(self, key: AgentKey, family: Family, *labels: str, by: float = 1.0) -> None:
        """Count."""
        column = self._column(key, family, labels)
        column[key] = column.get(key, 0.0) + by

    def put(self, key: AgentKey, family: Family, *labels: str, value: float | None) -> None:
        """Say what it is now; None: there is no such figure, and no series."""
        if value is None:
            self._columns[family].get(labels, {}).pop(key, None)
        else:
            self._column(key, family, labels)[key] = float(value)

    def put_all(self, key: AgentKey, family: Family, values: Mapping[str, float]) -> None:
        """The values of a family with one label, and no others."""
        for labels, column in self._columns[family].items():
            if labels[0] not in values:
                column.pop(key, None)
        for label, value in values.items():
            self.put(key, family, label, value=value)

    def _column(self, key: AgentKey, family: Family, labels: Labels) -> dict[AgentKey, float]:
        self._names.setdefault(key, f'name="{_escaped(key.name)}",namespace="{_escaped(key.namespace)}"')
        return self._columns[family].setdefault(labels, {})

    def has(self, key: AgentKey, family: Family, *labels: str) -> bool:
        """Whether there is such a series."""
        return key in self._columns[family].get(labels, ())

    def forget(self, key: AgentKey) -> None:
        """The agent is gone, or another process keeps it."""
        if self._names.pop(key, None) is None:
            return
        for column in self._each_column():
            column.pop(key, None)

    def forget_all(self) -> None:
        """Nothing is kept here any more."""
        self._names.clear()
        for column in self._each_column():
            column.clear()

    def _each_column(self) -> Iterable[dict[AgentKey, float]]:
        return (column for columns in self._columns.values() for column in columns.values())

    @property
    def agents(self) -> int:
        """How many there is anything to say of."""
        return len(self._names)

    def parts(self) -> Iterator[bytes]:
        """The text that Prometheus scrapes, a family at a time: whoever sends it can let others run in between."""
        for family, columns in self._columns.items():
            lines = [f"# HELP {family.name} {family.about}\n# TYPE {family.name} {family.kind}\n"]
            for labels, column in columns.items():
                own = "".join(f'{name}="{_escaped(said)}",' for name, said in zip(family.labels, labels, strict=True))
                head = f"{family.name}{{{own}"
                lines += [f"{head}{self._names[key]}}} {value!r}\n" for key, value in column.items()]
            yield "".join(lines).encode()


def _escaped(value: str) -> str:
    return value.translate(ESCAPED)
