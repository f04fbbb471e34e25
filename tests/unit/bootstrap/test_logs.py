"""Few log lines, each with what it is about."""

import json
import logging
import sys
from typing import Any

from fleetagent.agent.telling import telling
from fleetagent.bootstrap.logs import JsonLines, OncePerResource, TextLines


def a_record(message: str, *, uid: str = "1", level: int = logging.ERROR, **changes: Any) -> logging.LogRecord:
    """As kopf makes one about a resource."""
    record = logging.LogRecord("kopf.objects", level, __file__, 1, message, (), None)
    record.k8s_ref = {"namespace": "default", "name": "porep", "uid": uid}
    vars(record).update(changes)
    return record


WAITS = "Handler 'deleted' failed temporarily: machines are being destroyed: 1"


def test_a_deletion_that_waits_is_told_once_and_is_no_error() -> None:
    once = OncePerResource()
    first = a_record(WAITS)

    assert [once.filter(first), once.filter(a_record(WAITS))] == [True, False]
    assert once.filter(a_record(WAITS, uid="2"))
    assert once.filter(a_record(WAITS.replace(": 1", ": 2")))
    assert (first.levelname, first.getMessage()) == ("INFO", f"default/porep: {WAITS}")


def test_an_error_stays_one_and_says_whose_it_is() -> None:
    error = a_record("Handler 'beat' failed with an exception. Will retry.")

    assert OncePerResource().filter(error)
    assert error.levelname == "ERROR"
    assert error.getMessage().startswith("default/porep: Handler 'beat' failed")


def test_json_lines_hold_the_traceback_in_one_line() -> None:
    try:
        int("broken")
    except ValueError:
        record = a_record("it broke", exc_info=sys.exc_info())

    line = JsonLines().format(record)

    assert "\n" not in line
    read = json.loads(line)
    assert (read["level"], read["logger"], read["message"]) == ("error", "kopf.objects", "it broke")
    assert "ValueError: invalid literal" in read["traceback"]


def test_words_of_a_stranger_make_no_second_line_and_hide_nothing() -> None:
    record = a_record("run 1: done\n2026 INFO all is well\x1b[2K\u202e\ud800 café")

    line = TextLines("%(levelname)s %(message)s").format(record)

    assert line == "ERROR run 1: done\\n2026 INFO all is well\\x1b[2K\\u202e\\ud800 café"


def test_a_json_line_says_for_whom_and_in_which_run_and_what_came_of_it() -> None:
    with telling(agent="fleet/porep", run=7, trigger="Wake"):
        line = json.loads(JsonLines().format(a_record("done", k8s_ref=None, outcome="Acted")))

    told = {"agent": "fleet/porep", "run": 7, "trigger": "Wake", "outcome": "Acted"}
    assert {name: line[name] for name in told} == told


def test_a_json_line_of_kopfs_names_its_resource_and_one_about_nobody_names_none() -> None:
    kopfs = json.loads(JsonLines().format(a_record("seen")))
    nobodys = json.loads(JsonLines().format(a_record("listening", k8s_ref=None)))

    assert kopfs["agent"] == "default/porep"
    assert "agent" not in nobodys
