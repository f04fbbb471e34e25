"""The series of agents: each family with what it counts, and the small sets that its labels are taken from."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of each agent. Beside its own labels it has the agent's `name` and `namespace`."""

    name: str
    kind: Literal["counter", "gauge"]
    about: str
    labels: tuple[str, ...] = ()


def _counter(name: str, about: str, *labels: str) -> Family:
    return Family(f"fleetagent_{name}_total", "counter", about, labels)


def _gauge(name: str, about: str, *labels: str) -> Family:
    return Family(f"fleetagent_{name}", "gauge", about, labels)


RUNS: Final = _counter("runs", "Runs that ended, by how, and by the first of their triggers", "outcome", "trigger")
RUN_SECONDS: Final = _counter("run_seconds", "Time that runs took, waiting for the model included")
RUN_STARTED: Final = _gauge("run_started_timestamp_seconds", "When the run that goes on began; absent between runs")
OLDEST_TRIGGER: Final = _gauge(
    "oldest_trigger_timestamp_seconds",
    "Since when the oldest trigger or due wake waits for a run; absent without any, and in mode Suspended",
)
MODEL_REQUESTS: Final = _counter(
    "model_requests", "Requests to the model, repetitions within one not counted", "outcome"
)
MODEL_SECONDS: Final = _counter("model_seconds", "Time that requests to the model took, repetitions and waits included")
MODEL_TOKENS: Final = _counter(
    "model_tokens", "Tokens as the model's server counted them; input includes cached_input", "kind"
)
MISPLACED: Final = _counter(
    "model_misplaced_calls",
    "Tool calls that stood in text or reasoning: the server's tool parser does not fit the model",
    "place",
)
COMPACTIONS: Final = _counter("compactions", "Compactions of the conversation, by how they were made", "method")
ACTIONS: Final = _counter(
    "actions", "Launches and stops that runs asked for, by what first came of them", "kind", "state"
)
REFUSALS: Final = _counter("refusals", "Actions that a guardrail refused, by its code", "kind", "code")
EVENTS: Final = _counter(
    "events", "Events about the agent, those that were too many to be written included", "type", "reason"
)
NOTIFICATIONS: Final = _counter("notifications", "Alerts that were to go outside, by what came of it", "outcome")
UNDELIVERED: Final = _gauge("notifications_undelivered", "Alerts that have not reached the outside yet")

COUNTED: Final = (
    RUNS,
    RUN_SECONDS,
    MODEL_REQUESTS,
    MODEL_SECONDS,
    MODEL_TOKENS,
    MISPLACED,
    COMPACTIONS,
    ACTIONS,
    REFUSALS,
    EVENTS,
    NOTIFICATIONS,
)
"""What has happened since this process began to keep the agent."""

NOW: Final = (RUN_STARTED, OLDEST_TRIGGER, UNDELIVERED)
"""What is true at the moment, whatever the status says."""

TARGET: Final = _gauge("target_proofs_per_hour", "spec.target.proofsPerHour")
EFFECTIVE_TARGET: Final = _gauge(
    "effective_target_proofs_per_hour", "The target while there is demand, else 0; absent while the demand is unknown"
)
RATE: Final = _gauge("proofs_per_hour", "Measured rate of the proving machines (status.fleet.proofsPerHour)")
PROJECTED: Final = _gauge(
    "projected_proofs_per_hour",
    "What proves and what is expected of machines on their way (status.fleet.projectedProofsPerHour)",
)
MACHINES: Final = _gauge("machines", "Machines that bill or may bill, by phase, as the ledger has them", "phase")
MOST_MACHINES: Final = _gauge("machines_limit", "spec.limits.maxInstances")
OBSERVED: Final = _gauge(
    "fleet_observed_timestamp_seconds",
    "When the fleet was last seen whole; may be newer than status.fleet.observedAt, which is not written for it alone",
)
USD_PER_HOUR: Final = _gauge("usd_per_hour", "Cost of all machines, storage included (status.fleet.usdPerHour)")
BUDGET_PER_HOUR: Final = _gauge("budget_usd_per_hour", "spec.budget.fleetUsdPerHour")
USD_TODAY: Final = _gauge("spend_usd_today", "Cost of the machines since UTC midnight (status.spend.fleetUsdToday)")
BUDGET_PER_DAY: Final = _gauge("budget_usd_per_day", "spec.budget.fleetUsdPerDay; absent without one")
TOKENS_TODAY: Final = _gauge("model_tokens_today", "Model tokens since UTC midnight (status.spend.modelTokensToday)")
BUDGET_TOKENS: Final = _gauge("budget_model_tokens_per_day", "spec.budget.modelTokensPerDay; absent without one")
CONTEXT: Final = _gauge(
    "context_tokens", "The server's count of the last request's prompt (status.session.contextTokens)"
)
NEXT_PROMPT: Final = _gauge(
    "next_prompt_tokens", "Our estimate of the next request's prompt (status.session.nextPromptTokens)"
)
CONTEXT_BUDGET: Final = _gauge("context_budget_tokens", "spec.context.tokenBudget")
WAKES: Final = _gauge("pending_wakes", "Future runs that the model asked for")
WAITING: Final = _gauge("waiting_actions", "Actions that wait for a person")
ALERTS: Final = _gauge("open_alerts", "Alerts that nobody has acknowledged (status.openAlerts)")
LAST_RUN_ID: Final = _gauge("last_run_id", "Highest run number so far (status.lastRunID)")
LAST_RUN: Final = _gauge("last_run_timestamp_seconds", "When the last run began (status.lastRun.startedAt)")
NEXT_RUN: Final = _gauge("next_run_timestamp_seconds", "When the next run is due (status.nextRunAt)")
INTERVAL: Final = _gauge(
    "run_interval_seconds", "Time between scheduled runs; absent where cron decides, and in mode Suspended"
)
CONDITION: Final = _gauge("condition", "A condition of the status: 1 True, 0 False, -1 Unknown", "condition")

REPORTED: Final = (
    TARGET,
    EFFECTIVE_TARGET,
    RATE,
    PROJECTED,
    MACHINES,
    MOST_MACHINES,
    OBSERVED,
    USD_PER_HOUR,
    BUDGET_PER_HOUR,
    USD_TODAY,
    BUDGET_PER_DAY,
    TOKENS_TODAY,
    BUDGET_TOKENS,
    CONTEXT,
    NEXT_PROMPT,
    CONTEXT_BUDGET,
    WAKES,
    WAITING,
    ALERTS,
    LAST_RUN_ID,
    LAST_RUN,
    NEXT_RUN,
    INTERVAL,
)
"""The figures of the status and of the spec that they are measured by, as of the last report."""

FAMILIES: Final = (*COUNTED, *NOW, *REPORTED, CONDITION)
