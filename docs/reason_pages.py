"""Pages about conditions and Events: every reason that the code can give, found by reading the code.

A reason that cannot be traced to a literal stops the generator: a page that leaves one out would look complete.
"""
# ruff: noqa: INP001 - docs/ is no package

from collections import defaultdict

from reasons import conditions_said, events_said
from writing import code, table

from fleetagent.domain.status import ONLY_AN_EDIT_HELPS

CONDITIONS = {
    "Ready": "Whether the agent can do its work. Takes over the reason of a condition that it needs.",
    "FleetKnown": "Whether market and ledger agree on every machine. While not, nothing is launched or stopped.",
    "DemandKnown": "Whether the demand source answers. While not, nothing is launched or stopped.",
    "ModelAvailable": "Whether the model answered when it was asked last.",
    "ControllerDeciding": "Whether arithmetic decides while the model fails. `True` only with `fallback: Controller`.",
    "CanLaunch": "Whether all that a new machine is started with is there.",
    "OnTarget": "Whether what proves and what is on its way reach the target less its tolerance.",
    "WithinBudget": "Whether the machines cost no more than the budget. Caps stop no machine.",
    "CreditLasts": "Whether the market account's credit lasts another day at what its machines cost now.",
    "ContextFits": "Whether the prompt fits `spec.context.tokenBudget`.",
    "SpecHonoured": "Whether this version acts on every field of the spec.",
    "AlertsDelivered": "Whether alerts reach the receivers that `spec.alerts` names. Never holds a run up.",
    "SchemaCurrent": "Whether the cluster's CustomResourceDefinition has all that this operator reports.",
    "Suspended": "Whether somebody suspended or paused the agent, or stopped the installation. `True` is no fault.",
}


def conditions_page() -> str:
    """Each condition with every reason, linked to the runbook."""
    by_type: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for said in conditions_said():
        by_type[said.about][said.reason].add(said.status)
    if unknown := set(by_type) - set(CONDITIONS):
        raise ValueError(f"conditions without a sentence here: {', '.join(sorted(unknown))}")
    text = """# Conditions

As Kubernetes' own conditions: `type`, `status`, `reason`, `message`, `observedGeneration`, and `lastTransitionTime`,
which moves only when the status does. `kubectl wait --for=condition=Ready fleetagent/porep` works. Each reason leads to
its page in the [runbook](../runbook/README.md).
"""
    text += f"""
## What kstatus makes of it

Flux, `helm --wait` and others compute one word by the rules of kstatus:

- `InProgress`: nobody has looked at this generation yet (`observedGeneration` is -1 in a new resource), or `Ready` is
  `False` or `Unknown`: something is missing that may come while nobody touches the resource, such as a Secret.
- `Failed`: the condition `Stalled` is `True`, with the reason and the words of `Ready`. It is only there while an edit
  of the resource alone helps: {", ".join(map(code, sorted(ONLY_AN_EDIT_HELPS)))}.
- `Current`: `Ready` is `True`. Whether the target is reached is another question: `OnTarget`.
- `Terminating`: it is being deleted.

With `mode: Suspended`, or while the installation is stopped, `Ready` is `False`: whoever waits for it waits until that
ends.
"""
    for name, sentence in CONDITIONS.items():
        rows = [
            (f"[{code(reason)}](../runbook/{page_of(name)}#{reason.lower()})", ", ".join(sorted(statuses)))
            for reason, statuses in sorted(by_type[name].items())
        ]
        text += f"\n## {name}\n\n{sentence}\n\n{table(('reason', 'status'), rows)}"
    return text


def page_of(condition: str) -> str:
    """`FleetKnown` has the page fleet-known.md."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in condition).removeprefix("-") + ".md"


def events_page() -> str:
    """Each Event's reason, and what it is about."""
    kinds: dict[str, set[str]] = defaultdict(set)
    files: dict[str, set[str]] = defaultdict(set)
    for said in events_said():
        kinds[said.reason].add(said.status)
        files[said.reason].add(said.where)
    rows = [
        (_linked(reason, kinds[reason]), ", ".join(sorted(kinds[reason])), ", ".join(map(code, sorted(files[reason]))))
        for reason in sorted(kinds)
    ]
    return f"""# Events

`kubectl get events --field-selector involvedObject.name=porep` shows them; the API server keeps them for an hour by
default. What happened longer ago stands in the [tables](tables.md). Warnings lead to the
[runbook](../runbook/events.md).

{table(("reason", "type", "written by"), rows)}
A condition that becomes `False`, or stays so for another cause, is told by a Warning whose reason is the condition's;
a Normal one tells that it is well again: see [conditions](conditions.md). `OnTarget` and `Suspended` are not told.
"""


def _linked(reason: str, kinds: set[str]) -> str:
    return f"[{code(reason)}](../runbook/events.md#{reason.lower()})" if "Warning" in kinds else code(reason)
