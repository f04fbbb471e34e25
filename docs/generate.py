"""Makes docs/reference from the code: `make docs`. With --check it only says what is out of date.

Byte-stable: the same code gives the same pages, whatever Python runs this.
"""
# ruff: noqa: INP001 - docs/ is no package

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from api_page import api_page
from code_pages import commands_page, guardrails_page, settings_page, tables_page, tools_page
from metrics_page import metrics_page
from plugin_page import plugin_page
from reason_pages import conditions_page, events_page
from resource_page import resource_page

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Made by `make docs` from {source}. Change the code, not this file. -->\n\n"

PAGES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "resource.md": ("operator/fleetagent/domain/resource", resource_page),
    "settings.md": ("operator/fleetagent/settings.py", settings_page),
    "guardrails.md": ("operator/fleetagent/domain/guardrails/", guardrails_page),
    "tools.md": ("operator/fleetagent/agent/tools.py", tools_page),
    "conditions.md": ("every place that makes a condition", conditions_page),
    "events.md": ("every place that writes an Event", events_page),
    "tables.md": ("operator/fleetagent/adapters/postgres/tables.py", tables_page),
    "metrics.md": ("operator/fleetagent/adapters/metrics/", metrics_page),
    "api.md": ("operator/fleetagent/entrypoints/web/api/table.py", api_page),
    "commands.md": ("operator/fleetagent/__main__.py", commands_page),
    "kubectl.md": ("operator/fleetagent/plugin/parser.py", plugin_page),
}


def main() -> int:
    """Write the pages that changed; with --check write nothing and return 1 if any did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is out of date")
    check = parser.parse_args().check
    stale = []
    for name, (source, page) in PAGES.items():
        path, text = REFERENCE / name, NOTE.format(source=source) + page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    left = sorted({p.name for p in REFERENCE.glob("*.md")} - set(PAGES))
    if left:
        sys.stderr.write(f"docs/reference holds pages that nothing makes: {', '.join(left)}\n")
    if stale and check:
        sys.stderr.write(f"out of date in docs/reference: {', '.join(stale)}; run `make docs`\n")
    elif stale:
        sys.stdout.write(f"made anew in docs/reference: {', '.join(stale)}\n")
    return 1 if left or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
