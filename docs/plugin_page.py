"""The page about `kubectl fleetagent`, read from its parser."""
# ruff: noqa: INP001 - docs/ is no package

import argparse
from collections.abc import Iterable

from writing import code, table

from fleetagent.plugin.parser import PROG, command_line

EVERYWHERE = {"--kubeconfig", "--context", "--namespace"}
REACHED = {"--server", "--operator-namespace", "--as-service-account"}


def plugin_page() -> str:
    """Every command with its arguments and options; those that many have stand once."""
    made = command_line()
    (commands,) = (a for a in made._actions if isinstance(a, argparse._SubParsersAction))  # noqa: SLF001 - argparse's own help differs from one Python to the next
    said = {choice.dest: choice.help or "" for choice in commands._choices_actions}  # noqa: SLF001
    reached = next(each for each in commands.choices.values() if _named(each, REACHED))
    text = f"""# kubectl fleetagent

How to use it: [kubectl fleetagent](../how-to/kubectl.md). Exit code 0 when it did what it promises; 1 and one sentence
on standard error when it could not; 2 for a command line that cannot be meant.

Every command takes these, before its name or after it:

{_options(_named(made, EVERYWHERE))}
Commands that ask the operator's API take these, too (marked with *):

{_options(_named(reached, REACHED))}"""
    for name, each in commands.choices.items():
        star = " *" if _named(each, REACHED) else ""
        usage = " ".join([PROG, name, *(_argument(a) for a in _actions(each) if not a.option_strings)])
        text += f"\n## {name}\n\n{said[name][:1].upper()}{said[name][1:]}.{star}\n\n```\n{usage}\n```\n"
        own = sorted((a for a in _actions(each) if _option(a) not in EVERYWHERE | REACHED), key=_rank)
        if own:
            text += f"\n{_options(own)}"
    return text


def _rank(action: argparse.Action) -> int:
    """First what must be given, last what many commands take."""
    return 0 if not action.option_strings else 2 if _option(action) in {"--output", "--watch"} else 1


def _actions(made: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in made._actions if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)]  # noqa: SLF001


def _named(made: argparse.ArgumentParser, names: set[str]) -> list[argparse.Action]:
    return [a for a in _actions(made) if _option(a) in names]


def _option(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else ""


def _options(actions: Iterable[argparse.Action]) -> str:
    return table(("argument", "required", "meaning"), [(code(_words(a)), _needed(a), a.help or "") for a in actions])


def _words(action: argparse.Action) -> str:
    if not action.option_strings:
        return _argument(action)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} {action.metavar or '|'.join(map(str, action.choices or (action.dest.upper(),)))}"


def _argument(action: argparse.Action) -> str:
    word = str(action.metavar)
    return {"?": f"[{word}]", "+": f"{word}…"}.get(str(action.nargs), word)


def _needed(action: argparse.Action) -> str:
    return "yes" if not action.option_strings and action.nargs != "?" else ""
