"""Pages about settings, guardrails, tools, tables and commands, each read from the objects themselves."""
# ruff: noqa: INP001 - docs/ is no package

import argparse
import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic_core import PydanticUndefined
from sqlalchemy.dialects import postgresql
from writing import code, first_sentence_of, table

from fleetagent import settings
from fleetagent.__main__ import _parser
from fleetagent.adapters.postgres import tables
from fleetagent.agent.tools import TOOLS
from fleetagent.domain import guardrails

CHART = Path(__file__).parents[1] / "charts" / "fleetagent" / "templates"


def settings_page() -> str:
    """Every environment variable of the operator, in the order of settings.py."""
    said, chart = _attribute_docstrings(settings.Settings), _chart_values()
    rows = []
    for name, field in settings.Settings.model_fields.items():
        variable = f"FLEETAGENT_{name.upper()}"
        needed = field.default is PydanticUndefined
        default = "required" if needed else code(_shown(field.default))
        bounds = ", ".join(f"{sign} {getattr(rule, attribute)}" for rule in field.metadata for sign, attribute in SIGNS
                           if hasattr(rule, attribute))  # fmt: skip
        rows.append((code(variable), default, bounds, said[name], code(chart.get(variable, ""))))
    head = ("variable", "default", "bounds", "meaning", "chart value")
    return f"""# Environment variables

Read once, when the process starts; an empty one counts as not set. A wrong one ends the process with one line that
names it, and exit code 1. A variable without a chart value here is set with the chart's `extraEnv`.

{table(head, rows)}
Kubernetes is reached by the pod's ServiceAccount, else by the kubeconfig that `KUBECONFIG` names. The namespace of the
pod, else of the kubeconfig's context, is where the ConfigMap `fleetagent-stop` is looked for. `FLEETAGENT_WEB_LISTEN`
has the [page](../how-to/web.md), the [API](api.md) and [`/metrics`](metrics.md).
"""


SIGNS = (("at least", "ge"), ("at most", "le"))


def _shown(default: object) -> str:
    if default in (None, ()):
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


def _attribute_docstrings(of: type) -> dict[str, str]:
    body = _class_of(inspect.getsource(of)).body
    return {
        one.target.id: first_sentence_of(two.value.value)
        for one, two in itertools.pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        and isinstance(two, ast.Expr) and isinstance(two.value, ast.Constant) and isinstance(two.value.value, str)
    }  # fmt: skip


def _class_of(source: str) -> ast.ClassDef:
    return next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))


def _chart_values() -> dict[str, str]:
    """Which value of the chart sets which variable, from the templates."""
    text = "".join(p.read_text(encoding="utf-8") for p in sorted(p for p in CHART.rglob("*") if p.is_file()))
    found: dict[str, str] = {}
    for name, what in re.findall(r"- name: (FLEETAGENT_\w+)\n\s+(value: .*|valueFrom:\n.*\n.*)", text):
        values = re.findall(r"\.Values\.([\w.]+)", what)
        found.setdefault(name, values[-1] if values else "namespaces" if "fleetagent.namespaces" in what else "")
    return found


def guardrails_page() -> str:
    """Each rule with its code, its promise and its sentence, in the order in which they are asked."""
    parts = [
        ("For every action, first", guardrails.FIRST),
        ("For a launch", guardrails.LAUNCH_RULES),
        ("For a stop", guardrails.STOP_RULES),
        ("For every action, last", guardrails.LAST),
    ]
    text = """# Guardrails

Pure rules in code. Each launch and each stop, whoever wishes it (the model, the fallback controller, a person who
approves), is checked against facts that were read just before it. The first rule that refuses wins; its code and
sentence go to the model, to the ledger (`actions.refusal`) and to an Event `ActionRefused`, and the metric
`fleetagent_refusals_total` counts it by `kind` and `code`. A refusal has no effect on the fleet. Nobody asks these
rules when a time-out or a deletion ends a machine. In the sentences `…` stands for names and figures of the case.
"""
    number = 0
    for title, rules in parts:
        rows = []
        for rule in rules:
            number += 1
            said = _refusals(rule)
            codes, sentences = dict.fromkeys(c for c, _ in said), dict.fromkeys(s for _, s in said)
            when = first_sentence_of(rule.__doc__)
            rows.append((str(number), ", ".join(map(code, codes)), when, " / ".join(f"“{s}”" for s in sentences)))
        text += f"\n## {title}\n\n{table(('', 'code', 'rule', 'it says'), rows)}"
    return (
        text
        + """
Beside these, an action is refused with `MarketUnavailable` when the market cannot be used at all, and a launch with the
reason of the condition `CanLaunch` when what a machine is started with is missing. What a person approved is refused
with `NotPossibleNow` when market, Secret or database could not be read at that moment.
"""
    )


def _refusals(rule: object) -> list[tuple[str, str]]:
    """The codes and sentences of a rule, or of the helper that it hands over to."""
    module = inspect.getmodule(rule)
    tree = ast.parse(inspect.getsource(rule))  # type: ignore[arg-type]  # a function, whatever its exact type
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "Refusal":
            found.append((_text(node.args[0], module), _text(node.args[1], module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            helper = node.value.func.id
            found += _refusals(getattr(module, helper)) if helper != "Refusal" else []
    if not found:
        raise ValueError(f"no code in {rule!r}")
    return list(dict.fromkeys(found))


def _text(node: ast.expr, module: object) -> str:
    """A literal or a constant as it reads; what the case alone can tell becomes an ellipsis."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.Name(id=name) if isinstance(getattr(module, name, None), str):
            return str(getattr(module, name))
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, module) for part in parts)
        case _:
            return "…"


def tools_page() -> str:
    """What the model may call."""
    text = """# Tools of the model

The model acts through these alone. Arguments are checked; a wrong argument, an unknown tool and a refused action are
answers to the model, never failures of the run. The run that asked sees the whole result; history keeps
`spec.context.toolResultChars` of it.
"""
    for tool in TOOLS:
        schema = tool.arguments.model_json_schema()
        rows = [
            (code(name), part.get("type", ""), "yes" if name in schema.get("required", ()) else "", _limits(part),
             part.get("description", ""))
            for name, part in schema.get("properties", {}).items()
        ]  # fmt: skip
        text += f"\n## {tool.name}\n\n{first_sentence_of(tool.answer.__doc__)} The model reads: “{tool.description}”\n"
        if rows:
            text += "\n" + table(("argument", "type", "required", "bounds", "meaning"), rows)
    return text


def _limits(part: Mapping[str, Any]) -> str:
    if "enum" in part:
        return ", ".join(map(code, part["enum"]))
    words = {
        "minimum": "at least",
        "maximum": "at most",
        "minLength": "at least (characters)",
        "maxLength": "at most (characters)",
    }
    return ", ".join(f"{said} {part[key]}" for key, said in words.items() if key in part)


def tables_page() -> str:
    """Every table with its columns, keys and checks."""
    text = f"# Tables\n\n{' '.join((tables.__doc__ or '').split())}\n"
    for each in tables.metadata.tables.values():
        rows = [(code(c.name), _kind(c), _column_default(c), c.comment or _references(c)) for c in each.columns]
        text += f"\n## {each.name}\n\n{table(('column', 'type', 'default', 'meaning'), rows)}"
        keys = [f"unique: {', '.join(map(code, _names(c)))}" for c in _unique(each)]
        checks = [f"check: {code(c.sqltext)}" for c in each.constraints if isinstance(c, sa.CheckConstraint)]
        if keys or checks:
            text += "\n" + "".join(f"- {line}\n" for line in sorted([*keys, *checks]))
    return text


def _unique(each: sa.Table) -> Iterator[sa.UniqueConstraint]:
    yield from (c for c in each.constraints if isinstance(c, sa.UniqueConstraint))


def _names(constraint: sa.UniqueConstraint) -> list[str]:
    return [c.name for c in constraint.columns]


def _kind(column: sa.Column[Any]) -> str:
    kind = column.type.compile(dialect=postgresql.dialect()).lower()  # type: ignore[no-untyped-call]  # SQLAlchemy's own
    return kind.replace("timestamp with time zone", "timestamptz") + ("" if column.nullable else ", not null")


def _column_default(column: sa.Column[Any]) -> str:
    if column.identity is not None:
        return "identity"
    default = column.server_default
    return code(str(default.arg)) if isinstance(default, sa.DefaultClause) else ""


def _references(column: sa.Column[Any]) -> str:
    return ", ".join(sorted(f"references `{key.target_fullname}`" for key in column.foreign_keys))


def commands_page() -> str:
    """What `fleetagent` takes, the simulators too."""
    given, sys.argv = sys.argv, ["fleetagent", "sim"]  # else the simulators' arguments are not loaded
    parser = _parser()
    sys.argv = given
    text = """# Commands

Each command exits with 0 when it did what it promises, and with 1 and one line on standard error when it cannot start.
"""
    for name, each, said in _commands(parser, "fleetagent"):
        text += f"\n## {name}\n\n{said[:1].upper()}{said[1:]}.\n"
        rows = [(code(_option(a)), code(_default(a)), "yes" if a.required else "", _help(a)) for a in _options(each)]
        if rows:
            text += "\n" + table(("option", "default", "required", "meaning"), rows)
    return text


def _commands(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    for action in parser._actions:  # noqa: SLF001 - argparse's own help differs from one Python to the next
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        said = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
        for name, each in action.choices.items():
            if any(isinstance(a, argparse._SubParsersAction) for a in each._actions):  # noqa: SLF001
                yield from _commands(each, f"{path} {name}")
            else:
                yield f"{path} {name}", each, said.get(name, "")


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]  # noqa: SLF001


def _option(action: argparse.Action) -> str:
    if action.nargs == 0:
        return action.option_strings[-1]
    choices = "|".join(map(str, action.choices)) if action.choices else None
    return f"{action.option_strings[-1]} {action.metavar or choices or action.dest.upper()}"


def _default(action: argparse.Action) -> str:
    if action.nargs == 0 or action.default is None:
        return ""
    value = action.default
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _help(action: argparse.Action) -> str:
    return re.sub(r"\s*\(?default: %\(default\)s\)?|^%\(default\)s$|\(default: none\)", "", action.help or "")
