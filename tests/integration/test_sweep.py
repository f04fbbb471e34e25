"""`fleetagent sweep`: machines that carry our label, with the market alone and no ledger."""

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetagent.agent.subject import label_prefix
from fleetagent.bootstrap.sweep import sweep
from fleetagent.domain.records import AgentKey
from fleetagent.errors import CannotStart
from support.servers import MARKET_KEY, Market, a_market

OURS = label_prefix("default", AgentKey("prod", "porep"))
OTHERS = label_prefix("default", AgentKey("prod", "another"))


@pytest.fixture
def market() -> Iterator[Market]:
    """Two machines of prod/porep, one of another FleetAgent, one of somebody else."""
    with a_market() as running:
        for label in (f"{OURS}aaaaaaaaaaaa", f"{OURS}bbbbbbbbbbbb", f"{OTHERS}cccccccccccc", "by hand"):
            running.post("machines", {"label": label})
        yield running


def swept(market: Market, folder: Path, *, key: str = MARKET_KEY, **wishes: str | bool) -> int:
    """The command's exit code."""
    key_file = folder / "key"
    key_file.write_text(f"{key}\n")
    given = {"namespace": None, "name": None, "cluster": None, "destroy": False, "all": False, **wishes}
    wish = argparse.Namespace(market_url=market.base_url, api_key_file=str(key_file), **given)
    return asyncio.run(sweep(wish))


def labels(market: Market) -> list[str]:
    return [m["label"] for m in market.live()]


def test_it_lists_and_touches_nothing(market: Market, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert swept(market, tmp_path) == 3
    said = capsys.readouterr().out

    assert said.endswith("3 machines\n")
    assert "by hand" not in said
    assert len(labels(market)) == 4
    assert market.get("state")["calls"]["destroy"] == 0


def test_it_ends_one_agents_machines_and_sees_that_they_are_gone(
    market: Market, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = {"destroy_many": {"kind": "http_500"}, "destroy": {"kind": "http_500", "times": 3}}
    market.put("faults", failing | {"read_lag": {"destroy_seconds": 0.5}})

    assert swept(market, tmp_path, destroy=True, namespace="prod", name="porep") == 0

    said = capsys.readouterr().out
    assert "2 machines are asked for one by one" in said
    assert "is not destroyed yet" in said
    assert said.endswith("0 machines are left\n")
    assert labels(market) == [f"{OTHERS}cccccccccccc", "by hand"]


@pytest.mark.parametrize("fault", ["ignored", "partly", "destroyed_then_504"])
def test_what_one_call_for_all_did_not_end_is_ended_one_by_one(market: Market, tmp_path: Path, fault: str) -> None:
    market.put("faults", {"destroy_many": {"kind": fault}})

    assert swept(market, tmp_path, destroy=True, all=True) == 0

    assert labels(market) == ["by hand"]
    assert market.get("state")["calls"]["destroy_many"] == 1


LOOKALIKES = [
    OURS,
    f"{OURS}aaaaaaaaaaaa ",
    f" {OURS}aaaaaaaaaaaa",
    f"{OURS}aaa/aaa",
    f"{OURS}aaaaaaaaaaaa#2",
    f"{OURS.upper()}aaaaaaaaaaaa",
    f"{OURS}\u0430aaaaaaaaaaa",
    "fa/",
    "fa/notahash/aaaaaaaaaaaa",
    "",
    None,
]


def test_what_only_looks_like_our_label_is_neither_shown_nor_ended(
    market: Market, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for label in LOOKALIKES:
        market.post("machines", {"label": label})

    assert swept(market, tmp_path, destroy=True, all=True) == 0

    assert capsys.readouterr().out.count("RTX") == 3
    assert labels(market) == ["by hand", *LOOKALIKES]


def test_an_agent_of_another_cluster_has_other_machines(market: Market, tmp_path: Path) -> None:
    assert swept(market, tmp_path, destroy=True, namespace="prod", name="porep", cluster="elsewhere") == 0

    assert len(labels(market)) == 4


def test_the_cluster_is_the_operators_where_none_is_named(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETAGENT_CLUSTER", "elsewhere")

    assert swept(market, tmp_path, namespace="prod", name="porep") == 0
    assert swept(market, tmp_path, namespace="prod", name="porep", cluster="default") == 3


def test_only_the_word_all_ends_the_machines_of_every_agent(market: Market, tmp_path: Path) -> None:
    assert swept(market, tmp_path, destroy=True, all=True) == 0

    assert labels(market) == ["by hand"]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"key": "wrong"}, "refuses the API key"),
        ({"namespace": "prod"}, "--namespace and --name go together"),
        ({"cluster": "prod-1"}, "--cluster needs --namespace and --name"),
        ({"destroy": True, "cluster": "prod-1"}, "--cluster needs --namespace and --name"),
        ({"destroy": True, "all": True, "cluster": "prod-1"}, "--cluster needs --namespace and --name"),
        ({"destroy": True}, "--destroy needs --namespace and --name, or --all"),
        ({"destroy": True, "all": True, "namespace": "prod", "name": "porep"}, "contradict"),
    ],
    ids=["a wrong key", "half a name", "a cluster", "end a cluster", "all of one cluster", "end all", "all and one"],
)
def test_what_makes_no_sense_is_one_line_and_ends_nothing(
    market: Market, tmp_path: Path, wish: dict[str, Any], words: str
) -> None:
    with pytest.raises(CannotStart, match=words):
        swept(market, tmp_path, **wish)
    assert len(labels(market)) == 4


def test_a_list_that_cannot_be_read_is_not_an_empty_one(market: Market, tmp_path: Path) -> None:
    market.put("faults", {"list": "half_page"})

    with pytest.raises(CannotStart, match="cannot be read"):
        swept(market, tmp_path, destroy=True, all=True)
    assert len(labels(market)) == 4
