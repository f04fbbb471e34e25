"""Figures for acting on a fleet: simulated weeks beside peers, the guardrails' time, a beat's CPU."""

from bench import fleet_beat, fleet_rules, fleet_week
from bench.page import Parts, Table


def measure() -> Parts:
    """Times first, while the machine is quiet."""
    in_time = times()
    return Parts((weeks(), in_time))


def weeks() -> Table:
    """Each seed is a market of its own; the three live on the same one."""
    lived = fleet_week.lived_by(fleet_week.SEEDS)
    return Table(columns=["a week", "ours", "plain rule", "oracle"], rows=fleet_week.rows(lived), words=WEEK_WORDS)


def times() -> Table:
    """Guardrails and beat, each with its floor in the same run."""
    rows = [*fleet_rules.rows(), *fleet_beat.rows()]
    return Table(columns=["", "measured", "times the floor", "goal", "met"], rows=rows, words=TIME_WORDS)


SEEDS = len(fleet_week.SEEDS)

WEEK_WORDS = f"""\
{SEEDS} simulated weeks, seeds 1 to {SEEDS}, in virtual time: 500 proofs/h with 3 % of tolerance, 4.00 USD/h, \
0.008 USD per proof, the example filter, all else by default, a run every five minutes. Ours is the whole engine \
on a real Postgres, looking at the market once in each run; the model is the simulator's scripted policy: it \
looks, plans, and does as `plan_capacity` says. The market's prices drift, offers come and go, one create in ten \
to twenty is lost to others, hosts fail, make 15 % more or less than such hosts do, and disappear. On target \
means what truly proves, by the market's own books, minute by minute. Plain rule: every five minutes one launch \
of the cheapest proofs while what proves is below the target (what is on its way does not count), with the same \
filter, budgets and time limits, and stops of what is not needed; it acts on the market directly. Oracle: knows \
every machine's true rate, rents the cheapest sufficient set (exact) at the start, and never loses one; its time \
to target is that of its slowest machine. Mean over the seeds, in brackets the least and the most. A whole plan \
is that for an empty fleet without limits on launches; the least possible for the same expected rates is exact."""

TIME_WORDS = f"""\
{fleet_beat.MACHINES} machines, {fleet_rules.OFFERS:,} offers. Checks are of actions that every rule lets pass, \
so that each is asked; the fleet's capacity is counted anew each time. Their floor is one pass over the same \
list that reads one field. The beat is CPU of the operator's process for a look in which nothing is due: it \
lists the market in pages over HTTP, compares, books the bill, writes down a sample, judges the status. Market \
and Postgres run beside it. Its floor is the same pages, fetched with the same client and read as JSON."""
