"""What page and API read. `store` implements `ports.Reading`; each other file reads one subject.

agents    agents with what stands about them now     runs      runs, and all that belongs to one
actions   the ledger, and what waits for a person     conversation   sessions, messages, compactions
calls     wakes, alerts                               fleet     machines, hosts, samples, spend
versions  whether something has changed               heard     whether the operator has heard a word
walk      a page of a long table, at a bounded cost   cursors   where a page ended
seek      the place of a moment in a table            rows      a row as a view
"""

from fleetagent.adapters.postgres.reading.store import LONGEST_READ_SECONDS, PostgresReading

__all__ = ["LONGEST_READ_SECONDS", "PostgresReading"]
