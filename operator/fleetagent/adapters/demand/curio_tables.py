"""What is asked of Curio's own tables, and what the counts mean. Read only; every name is spelled with its schema."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from fleetagent.domain.demand import MOST_PROOFS, Demand

SNAP_WEIGHT = Decimal("1.6")
"""A Snap (update) proof of 32 GiB costs as much as 1.6 PoRep proofs, the unit of our rates."""

TABLES = (
    "harmony_task",
    "harmony_task_history",
    "sectors_sdr_pipeline",
    "sectors_snap_pipeline",
    "proofshare_queue",
    "proofshare_meta",
)
"""What the user must be able to read; `harmony_machines` too if nodes that have all stopped are to be noticed."""

# One statement, so that the counts are of one moment. Waiting: an open task without an owner. Soon: a sector whose
# proof is the next step and has no task yet; a PoRep waits for its seed then, for about 75 minutes. The market's queue
# is counted by Curio's own test; a PSProve task that stands in that queue is counted there and not once more.
COUNTS = """
SELECT
    (SELECT count(*) FROM curio.harmony_task WHERE name = 'PoRep' AND owner_id IS NULL) AS waiting_porep,
    (SELECT count(*) FROM curio.harmony_task WHERE name = 'UpdateProve' AND owner_id IS NULL) AS waiting_snap,
    (SELECT count(*) FROM curio.harmony_task
      WHERE name IN ('PoRep', 'UpdateProve', 'PSProve') AND owner_id IS NOT NULL) AS being_proved,
    (SELECT count(*) FROM curio.sectors_sdr_pipeline
      WHERE after_precommit_msg_success AND seed_epoch IS NOT NULL AND task_id_porep IS NULL
        AND after_porep IS NOT TRUE AND failed IS NOT TRUE) AS soon_porep,
    (SELECT count(*) FROM curio.sectors_snap_pipeline
      WHERE after_encode AND task_id_prove IS NULL
        AND after_prove IS NOT TRUE AND failed IS NOT TRUE) AS soon_snap,
    (SELECT count(*) FROM curio.proofshare_queue q LEFT JOIN curio.harmony_task t ON t.id = q.compute_task_id
      WHERE q.compute_done IS NOT TRUE AND (q.compute_task_id IS NULL OR t.owner_id IS NULL))
    + (SELECT count(*) FROM curio.harmony_task t
        WHERE t.name = 'PSProve' AND t.owner_id IS NULL AND NOT EXISTS (
            SELECT FROM curio.proofshare_queue q
             WHERE q.compute_task_id = t.id AND q.compute_done IS NOT TRUE)) AS market,
    (SELECT coalesce(bool_or(enabled), false) FROM curio.proofshare_meta) AS market_enabled,
    posted.porep AS posted_porep,
    posted.snap AS posted_snap,
    posted.market AS posted_market
FROM (
    SELECT count(DISTINCT id) FILTER (WHERE name = 'PoRep') AS porep,
           count(DISTINCT id) FILTER (WHERE name = 'UpdateProve') AS snap,
           count(DISTINCT id) FILTER (WHERE name = 'PSProve') AS market
      FROM (
        SELECT id, name FROM curio.harmony_task
         WHERE posted_time > now() - interval '1 hour' AND name IN ('PoRep', 'UpdateProve', 'PSProve')
        UNION ALL
        SELECT task_id, name FROM curio.harmony_task_history
         WHERE work_end > now() - interval '1 hour' AND posted > now() - interval '1 hour'
           AND name IN ('PoRep', 'UpdateProve', 'PSProve')
      ) AS either
) AS posted
"""

HAS_HEARTBEAT = """
SELECT count(*) > 0 AS has_heartbeat FROM pg_catalog.pg_attribute
 WHERE attrelid = to_regclass('curio.harmony_machines') AND attname = 'last_contact' AND NOT attisdropped
   AND has_column_privilege(attrelid, attnum, 'SELECT')
"""

SINCE_CONTACT = "SELECT extract(epoch FROM now() - max(last_contact))::float8 AS seconds FROM curio.harmony_machines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """One row of `COUNTS`: tasks and sectors, not yet weighed."""

    waiting_porep: int
    waiting_snap: int
    being_proved: int
    soon_porep: int
    soon_snap: int
    market: int
    market_enabled: bool
    posted_porep: int
    posted_snap: int
    posted_market: int

    @property
    def demand(self) -> Demand:
        """In units of a PoRep proof. Active while the market is on, or sealing has proofs to make or had this hour.

        The market's loop keeps its queue short on purpose: an enabled market is demand however little waits. What was
        posted within the hour counts so that a fleet is not ended between two sectors.
        """
        queued = self.waiting_porep + self.soon_porep + self.market + SNAP_WEIGHT * (self.waiting_snap + self.soon_snap)
        sealing = self.being_proved + self.posted_porep + self.posted_snap
        arrival = self.posted_porep + self.posted_market + SNAP_WEIGHT * self.posted_snap
        return Demand(
            active=self.market_enabled or queued > 0 or sealing > 0,
            queued=math.ceil(queued),
            arrival_per_hour=float(arrival),
        )


def counts_in(row: Mapping[str, object]) -> Counts | None:
    """The counts of such a row; None where a name is missing or something is no count: anybody may be at the DSN."""
    found: dict[str, Any] = {f.name: row.get(f.name) for f in fields(Counts)}
    wanted = {name: bool if name == "market_enabled" else int for name in found}
    if any(type(found[name]) is not kind or not 0 <= found[name] <= MOST_PROOFS for name, kind in wanted.items()):
        return None
    return Counts(**found)
