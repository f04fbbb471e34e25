"""What a night's run takes from its command line."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--first-seed` tells a story again, or another one; `--blocks` makes it shorter."""
    parser.addoption("--first-seed", type=int, default=1_000_000, help="seed of the first world of the hostile model")
    parser.addoption("--blocks", type=int, default=20, help="how many times 50,000 calls of the hostile model")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each block of worlds, named by its seeds: what was done need not be done again."""
    if "first_seed" in metafunc.fixturenames:
        first, blocks = metafunc.config.getoption("--first-seed", 1_000_000), metafunc.config.getoption("--blocks", 20)
        seeds = [first + block * 50 for block in range(blocks)]
        metafunc.parametrize("first_seed", seeds, ids=[f"seeds {seed} to {seed + 49}" for seed in seeds])
