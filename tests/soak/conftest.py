"""How long a soak lasts and how large it is: `make soak ARGS="--rounds=120 --agents=100 --blows=20"`."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The defaults are the long soak of docs/how-to/run-the-tests.md."""
    parser.addoption("--agents", type=int, default=100, help="agents that keep their beat")
    parser.addoption("--restless", type=int, default=10, help="agents whose targets change all the time")
    parser.addoption("--rounds", type=int, default=120, help="runs of each agent")
    parser.addoption("--interval", type=int, default=10, help="seconds between two runs of an agent")
    parser.addoption("--blows", type=int, default=20, help="how often a replica is killed, ended or frozen")
    parser.addoption("--soak-seed", type=int, default=1, help="another one, other blows")
    parser.addoption("--figures", type=Path, default=Path("dist/soak.json"), help="where the figures are written")
