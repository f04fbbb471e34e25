"""The chart's rules and dashboard, and what Prometheus' own tool says of them."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fleetagent.dev.promtool import find_promtool
from support.helm import CHART

ALERTS = CHART / "monitoring" / "alerts.yaml"
DASHBOARD = CHART / "monitoring" / "dashboard.json"
SERIES = re.compile(r"\b(?:fleetagent|process)_\w+")
MATCHED = re.compile(r"\b((?:fleetagent|process)_\w+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
VARIABLES = {"$namespace": ".*", "$name": ".*"}


@cache
def rules() -> dict[str, dict[str, Any]]:
    """Each alert by its name."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def panels() -> Iterator[tuple[str, str]]:
    """(title, expression) of everything that the dashboard draws; its variables replaced, as Grafana does."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression


def expressions() -> list[str]:
    """All that is asked of Prometheus, by alerts and dashboard."""
    return [rule["expr"] for rule in rules().values()] + [expression for _, expression in panels()]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What it says; whether it is content stands in the return code."""
    return subprocess.run(
        [find_promtool(progress=lambda _: None), *arguments], capture_output=True, text=True, check=False
    )
