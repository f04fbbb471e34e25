"""`runs`, `run`, `conversation`, `fleet`, `spend`, `alerts`: what only the database knows, by our API."""

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from fleetagent.plugin import past_pictures as pictures
from fleetagent.plugin.failures import NotFound
from fleetagent.plugin.person import Person, Seen
from fleetagent.plugin.transcript import compactions_picture, transcript_picture
from fleetagent.plugin.web import Web, below, open_web


def runs(person: Person) -> int:
    """The newest runs."""
    args = person.args
    which = {"outcome": args.outcome, "trigger": args.trigger, "since": args.since, "until": args.until}

    def look(web: Web) -> Seen:
        found = web.items(below(person.agent, "/runs"), args.limit, **which)
        return found, lambda: pictures.runs_picture(found["items"], person.now(), wide=person.terminal.wide)

    return _shown(person, look)


def run(person: Person) -> int:
    """One run with its actions, refusals and messages."""

    def look(web: Web) -> Seen:
        found = web.get(below(person.agent, f"/runs/{person.args.id}"))
        return found, lambda: pictures.run_picture(found, person.now())

    return _shown(person, look)


def conversation(person: Person) -> int:
    """The newest messages of a session, oldest first, and what has left the prompt; or all of it, for a file."""
    args = person.args
    if args.export:
        return _exported(person)

    def look(web: Web) -> Seen:
        which = {"session": args.session, "inPrompt": True if args.in_prompt else None}
        found = web.items(below(person.agent, "/conversation"), args.limit, **which)
        cuts = web.get(below(person.agent, "/compactions"), session=args.session).get("items") or ()

        def draw() -> RenderableType:
            parts: list[RenderableType] = [compactions_picture(cuts), Text("")] if cuts else []
            if "next" in found:
                parts.append(Text(f"the newest {len(found['items'])} messages; --limit shows more", "dim"))
            return Group(*parts, transcript_picture(found["items"]))

        return {**found, "compactions": cuts}, draw

    return _shown(person, look)


def fleet(person: Person) -> int:
    """The machines and what they cost."""

    def look(web: Web) -> Seen:
        found = web.items(
            below(person.agent, "/machines"), person.args.limit, ended=True if person.args.ended else None
        )
        agent = web.get(below(person.agent))
        return found, lambda: pictures.fleet_picture(found["items"], agent, person.now(), wide=person.terminal.wide)

    return _shown(person, look)


def spend(person: Person) -> int:
    """What each day has cost."""

    def look(web: Web) -> Seen:
        found, agent = web.get(below(person.agent, "/spend"), days=person.args.days), web.get(below(person.agent))
        return found, lambda: pictures.spend_picture(found["items"], agent)

    return _shown(person, look)


def alerts(person: Person) -> int:
    """The alerts that are open, or all of them."""

    def look(web: Web) -> Seen:
        state = None if person.args.all else "open"
        found = web.items(below(person.agent, "/alerts"), person.args.limit, state=state)
        return found, lambda: pictures.alerts_picture(found["items"], person.now())

    return _shown(person, look)


def _exported(person: Person) -> int:
    with open_web(person) as web:
        session = person.args.session or (web.get(below(person.agent)).get("session") or {}).get("id")
        if session is None:
            raise NotFound(f"{person.agent} has no session yet: it begins with the first run")
        for text in web.lines(below(person.agent, f"/sessions/{session}/export")):
            person.terminal.pass_on(text)
    return 0


def _shown(person: Person, look: Callable[[Web], Seen]) -> int:
    with open_web(person) as web:
        return person.show(lambda: look(web))
