"""What could change the model's mind, and what could not."""

from datetime import timedelta

import pytest

from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import MarketStatus, Phase
from fleetagent.domain.observation import Alert, LaunchProblem, Observation, Standing, fingerprint
from support.fleets import NOW, an_instance, an_observation, unknown_fleet

QUIET = an_observation(an_instance("1"), an_instance("2", Phase.LOADING))


def digest(seen: Observation) -> str | None:
    """The fingerprint under the same spec and without offers."""
    return fingerprint(seen, "spec")


@pytest.mark.parametrize(
    "same",
    [
        an_observation(an_instance("2", Phase.LOADING), an_instance("1")),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), at=NOW + timedelta(hours=11)),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), usd_spent_today="3.10"),
        an_observation(an_instance("1", measured_rate=100.2), an_instance("2", Phase.LOADING)),
        an_observation(an_instance("1", usd_per_hour="0.51"), an_instance("2", Phase.LOADING)),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), demand=Demand(active=True, queued=9)),
    ],
    ids=["another order", "later that day", "money spent", "a little faster", "a little dearer", "a longer queue"],
)
def test_what_moves_all_the_time_and_decides_nothing_is_left_out(same: Observation) -> None:
    assert digest(same) == digest(QUIET)


@pytest.mark.parametrize(
    "other",
    [
        an_observation(an_instance("1")),
        an_observation(an_instance("1"), an_instance("2", Phase.REGISTERED)),
        an_observation(an_instance("1", measured_rate=90.0), an_instance("2", Phase.LOADING)),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), demand=Demand(active=False)),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), wanted=100),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), open_alerts=1),
        an_observation(
            an_instance("1"), an_instance("2", Phase.LOADING), alerts=(Alert(7, "Model", "warning", "host fails"),)
        ),
        an_observation(an_instance("1", market_status=MarketStatus.OFFLINE), an_instance("2", Phase.LOADING)),
        an_observation(an_instance("1"), an_instance("2", Phase.LOADING), at=NOW + timedelta(hours=12)),
        an_observation(
            an_instance("1"), an_instance("2", Phase.LOADING), launch_problem=LaunchProblem("SecretMissing", "…")
        ),
    ],
    ids=[
        "one less",
        "another phase",
        "another rate",
        "demand ended",
        "on target now",
        "an alert",
        "another alert",
        "offline",
        "another day's budget",
        "a launch is not possible",
    ],
)
def test_what_could_change_the_models_mind_changes_the_fingerprint(other: Observation) -> None:
    assert digest(other) != digest(QUIET)


def test_another_spec_or_other_offers_change_the_fingerprint() -> None:
    assert len({fingerprint(QUIET, "a"), fingerprint(QUIET, "b"), fingerprint(QUIET, "a", ["7001"])}) == 3


@pytest.mark.parametrize(
    "seen",
    [an_observation(fleet=unknown_fleet()), an_observation(demand=DemandUnknown("no answer"), target=None)],
    ids=["fleet", "demand"],
)
def test_what_is_unknown_never_counts_as_unchanged(seen: Observation) -> None:
    assert digest(seen) is None
    assert seen.on_target is None


@pytest.mark.parametrize(("wanted", "on_target"), [(100, True), (198, True), (200, False)])
def test_what_proves_and_what_is_on_its_way_suffices_or_does_not(
    wanted: float,
    on_target: bool,  # noqa: FBT001 - a column of the table
) -> None:
    seen = an_observation(an_instance("1"), an_instance("2", Phase.LOADING), wanted=wanted)

    assert seen.on_target is on_target


@pytest.mark.parametrize("rate", [77.53, 77.56, 0.04, 111.60000000000001])
def test_the_last_machine_could_go_when_nothing_is_wanted_whatever_the_fraction_of_its_rate(rate: float) -> None:
    seen = an_observation(an_instance("1", measured_rate=rate), demand=Demand(active=False))

    assert seen.standing is Standing.ABOVE
