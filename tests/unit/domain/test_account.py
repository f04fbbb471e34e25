"""How long the account's money lasts, and when a person must hear of it."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.domain.account import Runway, bill
from fleetagent.domain.fleet import MarketStatus
from fleetagent.domain.observation import Calls
from fleetagent.domain.prompt import observation_text
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.status import Finding, Health, findings
from support.fleets import NOW, an_instance, an_observation, as_listed
from support.manifests import a_parsed_spec


def a_runway(credit: str | None, usd_per_hour: str = "1.00", refused: str | None = None) -> Runway:
    return Runway(None if credit is None else Decimal(credit), Decimal(usd_per_hour), refused)


@pytest.mark.parametrize(
    ("runway", "is_low"),
    [
        (a_runway("24.00"), False),
        (a_runway("23.99"), True),
        (a_runway("0"), True),
        (a_runway("-3.00"), True),
        (a_runway("0.01", "0"), False),
        (a_runway("0", "0"), True),
        (a_runway(None), False),
        (a_runway("1000", refused="insufficient_credit"), True),
        (a_runway(None, refused="insufficient_credit"), True),
    ],
    ids=["a day", "less", "none", "debt", "nothing bills", "none and nothing bills", "not told", "refused", "both"],
)
def test_credit_is_low_when_it_lasts_less_than_a_day_or_a_launch_was_refused_for_it(
    runway: Runway,
    is_low: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert runway.is_low is is_low


def test_a_stopped_machine_bills_its_disk_and_one_that_is_offline_nothing() -> None:
    def row(status: MarketStatus, **more: Any) -> Any:
        return as_listed(an_instance("1"), status=status, usd_per_hour=Decimal("0.50"), **more)

    listed = [
        row(MarketStatus.RUNNING),
        row(MarketStatus.LOADING),
        row(MarketStatus.UNKNOWN),
        row(MarketStatus.OFFLINE),
        row(MarketStatus.STOPPED, storage_usd_per_hour=Decimal("0.05")),
        row(MarketStatus.STOPPED),
        row(MarketStatus.RUNNING, label="by hand"),
    ]

    assert bill(listed) == Decimal("2.55")


def found(runway: Runway | None, now: datetime = NOW) -> Finding:
    seen = an_observation(an_instance(), runway=runway)
    return next(f for f in findings(a_parsed_spec(), seen, Health(), now) if f.type == "CreditLasts")


@pytest.mark.parametrize(
    ("runway", "status", "reason"),
    [
        (a_runway("100.00"), "True", "Enough"),
        (a_runway("5.00"), "False", "CreditLow"),
        (a_runway("100.00", refused="insufficient_credit"), "False", "NoCredit"),
        (a_runway(None), "Unknown", "CreditNotTold"),
        (None, "Unknown", "AccountNotRead"),
    ],
)
def test_people_see_whether_the_credit_lasts(runway: Runway | None, status: str, reason: str) -> None:
    finding = found(runway)

    assert (finding.status, finding.reason) == (status, reason)


def test_people_see_the_figures() -> None:
    words = "5.00 USD of credit left, which lasts 2.5 h at 2.000 USD/h for all machines of the account"

    assert found(a_runway("5.00", "2.00")).message.startswith(words)
    assert found(a_runway("100.00")).message == "100 USD of credit, which last 100 h"


def test_the_agent_hears_of_the_credit_only_while_it_is_low() -> None:
    def said(credit: str) -> str:
        seen = an_observation(an_instance(), runway=a_runway(credit))
        return observation_text(seen, 1, Calls((Trigger.SCHEDULE,)), a_parsed_spec())

    assert "Credit is low: 5.00 USD of credit left, which lasts 5.0 h" in said("5.00")
    assert "redit" not in said("30.00")
