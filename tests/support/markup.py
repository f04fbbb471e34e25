"""HTML as a browser and a reader take it."""

import html
import re
from html.parser import HTMLParser


class Markup(HTMLParser):
    """What a browser would take for markup."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.scripts_without_source = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.attributes |= set(given)
        self.links += [str(given[name]) for name in ("href", "src", "action", "hx-get") if name in given]
        self.scripts_without_source += tag == "script" and "src" not in given


def text_of(page: str) -> str:
    """What is read, without the markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def rows_of(page: str, caption: str) -> list[str]:
    """The text of each row in the body of the table with this caption."""
    table = page[page.index(f">{caption}<") :]
    body = table[table.index("<tbody") : table.index("</tbody>")]
    return [text_of(row) for row in body.split("<tr")[1:]]


def run_ids(page: str) -> list[int]:
    """The runs of a list of runs, in its order."""
    return [int(found) for found in re.findall(r'<a href="/agents/prod/porep/runs/(\d+)">\d+</a></th>', page)]
