"""The page of metrics, from the catalogue and the registry that an operator exports."""
# ruff: noqa: INP001 - docs/ is no package

from collections.abc import Iterator

from writing import code, table

from fleetagent.adapters.metrics import catalogue
from fleetagent.adapters.metrics.process import ProcessSeries

HEAD = ("metric", "type", "labels", "meaning")
PARTS = (
    ("What has happened", "Counters begin at zero when the process begins to keep the agent.", catalogue.COUNTED),
    (
        "What the status says",
        "Set whenever the status is made, from the same figures: both agree.",
        (*catalogue.REPORTED, catalogue.CONDITION),
    ),
    ("What is so at the moment", "Known before a report is made.", catalogue.NOW),
)


def metrics_page() -> str:
    """Every metric with its labels."""
    text = """# Metrics

`/metrics` on `FLEETAGENT_WEB_LISTEN`, in Prometheus' text format, without login: names and figures, nobody's words.
How to scrape, plot and be alerted: [monitoring](../how-to/monitoring.md).

## Of each agent

All of these carry the labels `namespace` and `name` of the FleetAgent, beside those that the tables name. They end with
the agent, and on a replica that another one has taken over from: an agent has series on one replica only. A moment is
written as seconds since 1970. A figure that does not exist (no budget, no last run) has no series.
"""
    for title, sentence, families in PARTS:
        rows = [(code(f.name), f.kind, ", ".join(map(code, f.labels)), f.about) for f in families]
        text += f"\n### {title}\n\n{sentence}\n\n{table(HEAD, rows)}"
    return (
        text
        + f"""
## Of the process

Once for all agents. Beside these there are prometheus-client's `process_*`: CPU, memory, open files, start.

{table(HEAD, list(_of_the_process()))}"""
    )


def _of_the_process() -> Iterator[tuple[str, str, str, str]]:
    process = ProcessSeries()
    labels = {
        metric: ", ".join(map(code, metric._labelnames))  # noqa: SLF001 - prometheus-client shows them nowhere else
        for metric in process.registry._collector_to_names  # noqa: SLF001
        if hasattr(metric, "_labelnames")
    }
    for collector, its_labels in labels.items():
        for family in collector.describe() or collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield code(name), family.type, its_labels, family.documentation
