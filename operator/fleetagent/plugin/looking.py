"""`list` and `status`: what the API server alone knows, with the status's own figures."""

from rich.console import RenderableType

from fleetagent.plugin.apiserver import Json
from fleetagent.plugin.glance import status_picture
from fleetagent.plugin.person import Person, Seen
from fleetagent.plugin.pictures import agents_picture


def list_agents(person: Person) -> int:
    """The FleetAgents of a namespace, or of all."""
    everywhere: bool = person.args.all_namespaces

    def look() -> Seen:
        agents = [_shown(a) for a in person.kubernetes.agents(None if everywhere else person.namespace)]

        def draw() -> RenderableType:
            return agents_picture(agents, person.now(), wide=person.terminal.wide, everywhere=everywhere)

        return {"apiVersion": "v1", "kind": "List", "items": agents}, draw

    return person.show(look)


def status(person: Person) -> int:
    """One FleetAgent at a glance."""

    def look() -> Seen:
        agent = _shown(person.kubernetes.agent(person.agent))
        return agent, lambda: status_picture(agent, person.now(), wide=person.terminal.wide)

    return person.show(look)


def _shown(agent: Json) -> Json:
    """As `kubectl get -o json` shows it: without who wrote which field."""
    meta = {name: value for name, value in agent["metadata"].items() if name != "managedFields"}
    return {**agent, "metadata": meta}
