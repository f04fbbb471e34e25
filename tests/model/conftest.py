"""A real llama.cpp server. These tests take long, and only whoever names their folder gets them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.llama import LlamaServer, find_llama
from support.real_model import WINDOW_TOKENS
from support.servers import Market, a_market

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test-model` names this folder; the whole of tests/ does not mean it."""
    del collection_path
    named = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return None if any(path.resolve().is_relative_to(HERE) for path in named) else True


@pytest.fixture
def market() -> Iterator[Market]:
    with a_market() as running:
        yield running


@pytest.fixture(scope="session")
def packages() -> Path:
    """`make test-model` has put them there; else this takes minutes."""
    return find_llama()


@pytest.fixture
def with_tools(packages: Path) -> Iterator[LlamaServer]:
    """The template of ours: tools and calls as large models get them, refusals as the strictest templates have them."""
    template = (HERE / "chat_template.jinja").read_text()
    with LlamaServer.start(packages, context_tokens=WINDOW_TOKENS, chat_template=template) as running:
        yield running


@pytest.fixture
def as_shipped(packages: Path) -> Iterator[LlamaServer]:
    """The template in the weights: it knows roles and texts, neither tools nor calls."""
    with LlamaServer.start(packages, context_tokens=WINDOW_TOKENS, chat_template=None) as running:
        yield running
