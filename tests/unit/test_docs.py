"""The documentation against the code: up to date, complete, and without dead ends."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleetagent.domain.resource import FleetAgentSpec

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.md"), *ROOT.glob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
REASON_ROW = re.compile(r"^\| \[`(\w+)`\]\(\.\./runbook/([\w-]+\.md)#(\w+)\)", re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """What a link into this page may end with: each heading in small letters, with dashes."""
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(path: Path, anchor: str) -> str:
    """The text below a heading, up to the next one."""
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^## {anchor}$\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return found[1].strip() if found else ""


def manifests() -> Iterator[tuple[str, dict[str, object]]]:
    for path in EXAMPLES:
        yield named(path), yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in PAGES:
        for number, (language, text) in enumerate(FENCED.findall(path.read_text(encoding="utf-8"))):
            if language == "yaml" and "kind: FleetAgent" in text:
                yield f"{named(path)}:{number}", yaml.safe_load(text)


def reasons() -> list[tuple[str, str, str]]:
    """(reason, page, anchor) of each row of the generated pages that leads into the runbook."""
    pages = [DOCS / "reference" / name for name in ("conditions.md", "events.md")]
    return [row for page in pages for row in REASON_ROW.findall(page.read_text(encoding="utf-8"))]


def test_the_reference_is_what_the_code_gives() -> None:
    made = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True, check=False
    )

    assert made.returncode == 0, made.stderr


def test_the_generator_finds_the_reasons_that_matter() -> None:
    found = {(page, reason) for reason, page, _ in reasons()}

    assert {
        ("fleet-known.md", "FleetUnknown"),
        ("fleet-known.md", "AccountChanged"),
        ("fleet-known.md", "SecretMissing"),
        ("demand-known.md", "HostNotAllowed"),
        ("model-available.md", "QuotaExceeded"),
        ("model-available.md", "TokensUsedUp"),
        ("ready.md", "MemoryUnavailable"),
        ("ready.md", "InvalidSchedule"),
        ("events.md", "LaunchUnclear"),
        ("events.md", "DeletionWaits"),
    } <= found


@pytest.mark.parametrize(("reason", "page", "anchor"), reasons(), ids=str)
def test_each_reason_has_a_section_in_the_runbook(reason: str, page: str, anchor: str) -> None:
    assert anchor == reason.lower()
    assert section(DOCS / "runbook" / page, reason), f"docs/runbook/{page} needs a section '## {reason}'"


@pytest.mark.parametrize("page", sorted((DOCS / "runbook").glob("*-*.md")), ids=named)
def test_no_runbook_page_explains_a_reason_that_the_code_cannot_give(page: Path) -> None:
    known = {anchor for _, where, anchor in reasons() if where == page.name}
    if known:
        assert anchors(page) - known == {page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").lower()}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        where, _, anchor = link.partition("#")
        target = (page.parent / where).resolve() if where else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)

    assert not dead, f"dead links in {named(page)}: {', '.join(dead)}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=named)
def test_each_page_can_be_reached_from_the_first_one(page: Path) -> None:
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        here = waiting.pop()
        if here in seen or here.suffix != ".md":
            continue
        seen.add(here)
        links = (link.partition("#")[0] for link in LINK.findall(here.read_text(encoding="utf-8")))
        targets = [(here.parent / link).resolve() for link in links if link and "://" not in link]
        waiting += [t for t in targets if t.is_file()]
        waiting += [f for t in targets if t.is_dir() for f in t.glob("*.md")]

    assert page in seen


@pytest.mark.parametrize(
    ("where", "manifest"), list(manifests()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_example_is_a_spec_that_the_operator_reads(where: str, manifest: dict[str, object]) -> None:
    assert (manifest["apiVersion"], manifest["kind"]) == ("fleetagent.dev/v1alpha1", "FleetAgent"), where
    spec = manifest["spec"]
    assert isinstance(spec, dict)

    read = FleetAgentSpec.read(spec).to_wire()

    assert _only_in(spec, read) == [], f"{where} has fields that nobody knows"


def _only_in(given: object, known: object, path: str = "spec") -> list[str]:
    """Fields that the models dropped: a typo in an example would be passed over in silence."""
    if not isinstance(given, dict) or not isinstance(known, dict):
        return []
    missing = [f"{path}.{name}" for name in given if name not in known]
    shared = [name for name in given if name in known]
    return missing + [found for name in shared for found in _only_in(given[name], known[name], f"{path}.{name}")]
