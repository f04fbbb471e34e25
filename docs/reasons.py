"""Reads the code for every reason of a condition or an Event."""
# ruff: noqa: INP001 - docs/ is no package

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fleetagent

ROOT = Path(fleetagent.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
READ = ("domain", "agent", "adapters", "bootstrap")

PASSES_EVENTS_ON = "metered.py"
"""It counts Events that others write."""


@dataclass(frozen=True, slots=True)
class Said:
    """One reason: of which condition (or Event), with which status (or type), written in which file."""

    about: str
    status: str
    reason: str
    where: str


@dataclass(frozen=True, slots=True)
class Maker:
    """A constructor whose arguments name a condition: fixed text, or the position of the argument."""

    condition: str | int
    status: str | int
    reason: int


MAKERS = {
    "Finding": Maker(0, 1, 2),
    "BadResource": Maker(0, "False", 1),
    "ModelFailed": Maker("ModelAvailable", "False", 0),
    "Trouble": Maker("ModelAvailable", "False", 1),
    "LaunchProblem": Maker("CanLaunch", "False", 0),
}
NEEDED = ("FleetUnknown", "FleetKnown"), ("DemandUnknown", "DemandKnown")
"""Values of the domain whose field `reason` becomes a condition's; its default is a reason too."""


@dataclass(slots=True)
class Module:
    """One parsed file, with each call and the function that it stands in."""

    path: Path
    tree: ast.Module
    constants: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[ast.Call, Function | None]] = field(default_factory=list)


class Code:
    """Our code, and what an expression in it can be."""

    def __init__(self) -> None:
        files = sorted(f for part in READ for f in (ROOT / part).rglob("*.py") if "migrations" not in f.parts)
        self.modules = [_parsed(f) for f in files]

    def values(self, node: ast.expr, module: Module, inside: Function | None) -> set[str]:
        """Every text that the expression can be, as far as literals tell; empty if it only hands something on."""
        found: set[str] = set()
        match node:
            case ast.Constant(value=str(text)):
                found = {text}
            case ast.IfExp(body=one, orelse=other):
                found = self.values(one, module, inside) | self.values(other, module, inside)
            case ast.Attribute(attr="code"):
                found = self._denied()
            case ast.Attribute(attr="reason", value=ast.Name(id="judgement")):
                found = _keys_of_dicts(inside)
            case ast.Attribute():
                pass
            case ast.Name(id=name) if name in module.constants:
                found = {module.constants[name]}
            case ast.Name(id=name) if inside is not None:
                found = self._assigned(name, module, inside) or self._passed(name, module, inside)
            case _:
                raise ValueError(f"{module.path.name}:{node.lineno}: cannot tell what this can be")
        return found

    def _assigned(self, name: str, module: Module, inside: Function) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(inside):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                found |= self.values(node.value, module, inside)
        return found

    def _passed(self, name: str, home: Module, inside: Function) -> set[str]:
        """What callers pass for the parameter `name` of this function; a private one has callers in its file alone."""
        positional = [a.arg for a in inside.args.args if a.arg not in {"self", "cls"}]
        found: set[str] = set()
        for module in [home] if inside.name.startswith("_") else self.modules:
            for call, caller in module.calls:
                if _called(call) != inside.name or caller is inside:
                    continue
                given = [k.value for k in call.keywords if k.arg == name]
                if name in positional and positional.index(name) < len(call.args):
                    given.append(call.args[positional.index(name)])
                for value in given:
                    found |= self.values(value, module, caller)
        return found

    def _denied(self) -> set[str]:
        """What a Secret that cannot be used is denied with."""
        cluster = next(m for m in self.modules if m.path.name == "cluster.py")
        denials = [call for call, _ in cluster.calls if _called(call) == "Denied"]
        return {text for call in denials for text in self.values(call.args[0], cluster, None)}


def conditions_said() -> list[Said]:
    """Every condition with every reason."""
    code, found = Code(), []
    for module, call, inside in _everywhere(code):
        maker = MAKERS.get(_called(call))
        if maker is None or _is_no_condition(call):
            continue
        conditions = _part(code, maker.condition, call, module, inside)
        statuses = _part(code, maker.status, call, module, inside)
        reasons = code.values(call.args[maker.reason], module, inside)
        found += [Said(c, s, r, _where(module)) for c in conditions for s in statuses for r in reasons]
    for made, condition in NEEDED:
        found += [Said(condition, "False", reason, "domain") for reason in _default_reasons(code, made)]
    return found


def _is_no_condition(call: ast.Call) -> bool:
    """`Trouble(…, is_models=False)` fails the run and says nothing of the model."""
    return any(k.arg == "is_models" for k in call.keywords)


def _part(
    code: Code,
    part: str | int,
    call: ast.Call,
    module: Module,
    inside: Function | None,
) -> set[str]:
    return {part} if isinstance(part, str) else code.values(call.args[part], module, inside)


def _default_reasons(code: Code, made: str) -> Iterator[str]:
    for module in code.modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == made:
                for part in node.body:
                    if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "reason" and part.value:
                        yield from code.values(part.value, module, None)


def events_said() -> list[Said]:
    """Every Event with its type, save those that hand a condition's reason on: conditions have their own page."""
    code, found = Code(), []
    for module, call, inside in _everywhere(code):
        if _called(call) not in {"event", "_queue_event"}:
            continue
        given = {k.arg: k.value for k in call.keywords}
        if not {"kind", "reason"} <= set(given) or module.path.name == PASSES_EVENTS_ON:
            continue
        reasons = code.values(given["reason"], module, inside)
        kinds = code.values(given["kind"], module, inside)
        for reason in reasons:
            found += [Said("Event", k, reason, _where(module)) for k in _kinds_of(reason, kinds, code, inside)]
    return found


def _kinds_of(reason: str, kinds: set[str], code: Code, inside: Function | None) -> set[str]:
    """A helper that is called with both says for each reason which type it has."""
    if len(kinds) < 2 or inside is None:
        return kinds
    found: set[str] = set()
    for _, call, caller in _everywhere(code):
        if _called(call) == inside.name and caller is not inside:
            texts = {t for arg in call.args for t in _literals(arg)}
            if reason in texts and texts & {"Normal", "Warning"}:
                found |= texts & {"Normal", "Warning"}
    if found:
        return found
    return {"Normal"} if reason in {"Launched", "Stopped"} else {"Warning"}


def _literals(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _everywhere(code: Code) -> Iterator[tuple[Module, ast.Call, Function | None]]:
    for module in code.modules:
        for call, inside in module.calls:
            yield module, call, inside


def _where(module: Module) -> str:
    return str(module.path.relative_to(ROOT))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _keys_of_dicts(inside: Function | None) -> set[str]:
    found = [node for node in ast.walk(inside) if isinstance(node, ast.Dict)] if inside is not None else []
    return {str(key.value) for node in found for key in node.keys if isinstance(key, ast.Constant)}


def _parsed(path: Path) -> Module:
    module = Module(path, ast.parse(path.read_text(encoding="utf-8")))
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            module.constants |= {t.id: node.value.value for t in node.targets if isinstance(t, ast.Name)}
    _collect(module, module.tree.body, None)
    return module


def _collect(module: Module, nodes: Sequence[ast.AST], inside: Function | None) -> None:
    for node in nodes:
        if isinstance(node, ast.Call):
            module.calls.append((node, inside))
        within = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else inside
        _collect(module, list(ast.iter_child_nodes(node)), within)
