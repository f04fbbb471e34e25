"""Whatever ledger and list hold: no machine that bills is ever out of sight."""

from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.fleet import Fleet, Instance, Phase
from fleetagent.domain.settle import SettleLimits, settle
from support.fleets import NOW, ago, an_instance, as_listed

MACHINES = st.lists(
    st.builds(
        an_instance,
        st.integers(1, 6).map(str),
        st.sampled_from([Phase.REQUESTED, Phase.LOADING, Phase.PROVING, Phase.STOPPING]),
        destroy_asked_at=st.sampled_from([None, ago(seconds=30)]),
        requested_at=st.sampled_from([ago(seconds=30), ago(hours=1)]),
        confirmed_gone_at=st.sampled_from([None, ago(hours=1)]),
    ),
    unique_by=lambda i: i.label,
    max_size=6,
)


@given(MACHINES, st.sets(st.integers(1, 8).map(str)), st.sets(st.integers(1, 6).map(str)))
def test_every_listed_machine_is_in_the_ledger_afterwards_and_no_live_one_is_dropped_unasked(
    known: list[Instance], listed: set[str], said_gone: set[str]
) -> None:
    rows = [as_listed(an_instance(number)) for number in sorted(listed)]

    found = settle(known, rows, NOW, SettleLimits(), said_gone=said_gone)

    fleet = found.fleet if isinstance(found.fleet, Fleet) else found.fleet.last_known
    assert fleet is not None
    kept = {i.provider_id for i in fleet.instances}
    assert listed <= kept
    dropped = {i.provider_id for i in known if i.phase is not Phase.STOPPING} - kept
    assert dropped <= said_gone
