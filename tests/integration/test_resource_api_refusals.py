"""Bad specs: each is refused by the API server itself, in words that name the field."""

import json
from typing import Any

import pytest

from fleetagent.dev.apiserver import ApiError
from fleetagent.dev.controlplane import ControlPlane
from support.manifests import ABSENT, Json, a_manifest

DSN = {"dsnSecretRef": {"name": "curio-db", "key": "dsn"}}
PAUSE = {"until": "2026-12-01T08:00:00Z", "directions": ["Up"]}
KEY = {"name": "llm", "key": "api-key"}


def vast(**changes: Any) -> Json:
    return {"fleet": {"vast": changes}}


def instance(**changes: Any) -> Json:
    return vast(instance=changes)


def offers(**changes: Any) -> Json:
    return vast(offers=changes)


def schedule(**changes: Any) -> Json:
    return {"schedule": changes}


def model(**changes: Any) -> Json:
    return {"model": changes}


def parameters(**changes: Any) -> Json:
    return model(parameters=changes)


REFUSED: list[tuple[Json, str, str]] = [
    # what is missing
    ({"target": ABSENT}, "spec.target", "Required"),
    ({"target": {"proofsPerHour": ABSENT}}, "spec.target.proofsPerHour", "Required"),
    ({"target": {"proofsPerHour": None}}, "spec.target.proofsPerHour", "null"),
    (model(baseURL=ABSENT), "spec.model.baseURL", "Required"),
    (model(name=ABSENT), "spec.model.name", "Required"),
    ({"budget": {"fleetUsdPerHour": ABSENT}}, "spec.budget.fleetUsdPerHour", "Required"),
    (vast(apiKeySecretRef=ABSENT), "spec.fleet.vast.apiKeySecretRef", "Required"),
    (vast(apiKeySecretRef={"key": ABSENT}), "spec.fleet.vast.apiKeySecretRef.key", "Required"),
    (instance(image=ABSENT), "spec.fleet.vast.instance.image", "Required"),
    ({"demand": ABSENT}, "spec.demand", "Required"),
    ({"pause": {"reason": "market too dear"}}, "spec.pause.until", "Required"),
    # what nobody knows
    ({"taget": {}}, "spec.taget", "unknown field"),
    (schedule(intervall="5m"), "spec.schedule.intervall", "unknown field"),
    # one of several
    ({"demand": {"curio": DSN}}, "spec.demand", "at most 1"),
    ({"demand": {"static": ABSENT}}, "spec.demand", "at least 1"),
    ({"mode": "act"}, "spec.mode", '"Approve"'),
    ({"fallback": "None"}, "spec.fallback", '"Controller"'),
    ({"deletionPolicy": "Delete"}, "spec.deletionPolicy", '"Retain"'),
    ({"pause": PAUSE | {"directions": ["Sideways"]}}, "spec.pause.directions[0]", '"Down"'),
    # money
    ({"budget": {"fleetUsdPerHour": 4.0}}, "spec.budget.fleetUsdPerHour", "string"),
    ({"budget": {"fleetUsdPerHour": "-1"}}, "spec.budget.fleetUsdPerHour", "should match"),
    ({"budget": {"fleetUsdPerHour": "4,00"}}, "spec.budget.fleetUsdPerHour", "should match"),
    ({"budget": {"fleetUsdPerHour": "1e3"}}, "spec.budget.fleetUsdPerHour", "should match"),
    ({"budget": {"fleetUsdPerDay": "$96"}}, "spec.budget.fleetUsdPerDay", "should match"),
    ({"budget": {"fleetUsdPerDay": ""}}, "spec.budget.fleetUsdPerDay", "at least 1"),
    ({"budget": {"usdPerProof": "0.000"}}, "spec.budget.usdPerProof", "must be above 0"),
    ({"budget": {"modelTokensPerDay": -1}}, "spec.budget.modelTokensPerDay", "greater than or equal to 0"),
    (model(usdPerMillionTokens={"cachedInput": "0.1"}), "spec.model.usdPerMillionTokens", "cachedInput needs input"),
    (model(usdPerMillionTokens={"input": 0.4}), "spec.model.usdPerMillionTokens.input", "string"),
    (offers(maxUsdPerHour="0"), "spec.fleet.vast.offers.maxUsdPerHour", "must be above 0"),
    # time
    (schedule(interval="9s"), "spec.schedule.interval", "between 10s and 24h"),
    (schedule(interval="0s"), "spec.schedule.interval", "between 10s and 24h"),
    (schedule(interval="1d1s"), "spec.schedule.interval", "between 10s and 24h"),
    (schedule(interval="9999d"), "spec.schedule.interval", "between 10s and 24h"),
    (schedule(interval="213503d"), "spec.schedule.interval", "should match"),  # wraps around to 44 minutes
    (schedule(interval="-5m"), "spec.schedule.interval", "should match"),
    (schedule(interval="5 minutes"), "spec.schedule.interval", "should match"),
    (schedule(interval="1m5h"), "spec.schedule.interval", "should match"),
    (schedule(interval=""), "spec.schedule.interval", "at least 2"),
    (schedule(interval=300), "spec.schedule.interval", "must be of type duration"),
    (schedule(interval="5m", cron="*/5 * * * *"), "spec.schedule", "interval and cron exclude each other"),
    (schedule(timeZone="Europe/Berlin"), "spec.schedule", "timeZone applies to cron only"),
    (schedule(cron="* * * * *", timeZone="../etc/passwd"), "spec.schedule.timeZone", "should match"),
    (schedule(cron="* * * * *", timeZone="Mars/Phobos"), "spec.schedule.timeZone", "unknown time zone Mars/Phobos"),
    (schedule(cron="* * * * *", timeZone="Local"), "spec.schedule.timeZone", "must be an IANA time zone"),
    (schedule(cron="0 18-8 * * *"), "spec.schedule.cron", "ranges that rise"),
    (schedule(cron="* * * *  "), "spec.schedule.cron", "must be five fields"),
    (schedule(cron="60 * * * *"), "spec.schedule.cron", "must be five fields"),
    (schedule(cron="0 24 * * *"), "spec.schedule.cron", "must be five fields"),
    (schedule(cron="@daily   "), "spec.schedule.cron", "must be five fields"),
    (schedule(debounce={"idle": "2m", "max": "1m"}), "spec.schedule.debounce", "idle must not be longer than max"),
    (schedule(wakes={"min": "2h", "max": "1h"}), "spec.schedule.wakes", "min must not be longer than max"),
    (schedule(wakes={"min": "0s"}), "spec.schedule.wakes.min", "between 1s and 24h"),
    (schedule(wakes={"limit": 101}), "spec.schedule.wakes.limit", "less than or equal to 100"),
    (model(timeout="0s"), "spec.model.timeout", "between 1s and 1h"),
    ({"fleet": {"timeouts": {"loading": "0s"}}}, "spec.fleet.timeouts.loading", "between 1s and 24h"),
    ({"approvalExpiry": "25h"}, "spec.approvalExpiry", "between 1s and 24h"),
    ({"retention": {"runs": "59m"}}, "spec.retention.runs", "between 1h and 3650d"),
    ({"pause": PAUSE | {"until": "tomorrow"}}, "spec.pause.until", "should match"),
    ({"pause": PAUSE | {"until": "2026-12-01 08:00:00"}}, "spec.pause.until", "should match"),
    ({"pause": PAUSE | {"until": "2026-02-30T08:00:00Z"}}, "spec.pause.until", "date-time"),
    ({"pause": PAUSE | {"directions": []}}, "spec.pause.directions", "at least 1"),
    ({"pause": PAUSE | {"directions": ["Up", "Up"]}}, "spec.pause.directions[1]", "Duplicate"),
    # numbers
    ({"target": {"proofsPerHour": -1}}, "spec.target.proofsPerHour", "greater than or equal to 0"),
    ({"target": {"proofsPerHour": "500"}}, "spec.target.proofsPerHour", "integer"),
    ({"target": {"proofsPerHour": 0.5}}, "spec.target.proofsPerHour", "integer"),
    ({"target": {"tolerancePercent": 51}}, "spec.target.tolerancePercent", "less than or equal to 50"),
    ({"context": {"tokenBudget": 1999}}, "spec.context.tokenBudget", "greater than or equal to 2000"),
    ({"context": {"toolResultChars": 20_001}}, "spec.context.toolResultChars", "less than or equal to 20000"),
    ({"limits": {"minInstances": 3, "maxInstances": 2}}, "spec.limits", "minInstances must not be above maxInstances"),
    ({"limits": {"launchesPerRun": -1}}, "spec.limits.launchesPerRun", "greater than or equal to 0"),
    (offers(minReliability=97), "spec.fleet.vast.offers.minReliability", "less than or equal to 1"),
    (offers(minCudaVersion=13.0), "spec.fleet.vast.offers.minCudaVersion", "string"),
    (offers(countries=["Germany"]), "spec.fleet.vast.offers.countries[0]", "may not be more than 2"),
    (offers(countries=["de"]), "spec.fleet.vast.offers.countries[0]", "should match"),
    (offers(excludeMachines=["41877"]), "spec.fleet.vast.offers.excludeMachines[0]", "integer"),
    (offers(gpuNames=["RTX 5090", "RTX 5090"]), "spec.fleet.vast.offers.gpuNames[1]", "Duplicate"),
    (instance(diskGB=7), "spec.fleet.vast.instance.diskGB", "greater than or equal to 8"),
    # where things are
    (model(baseURL="vllm:8000/v1"), "spec.model.baseURL", "should match '^https?://"),
    (model(baseURL="file:///etc/passwd"), "spec.model.baseURL", "should match '^https?://"),
    (model(baseURL="http://"), "spec.model.baseURL", "should match"),
    (model(baseURL="http:///v1"), "spec.model.baseURL", "must name a host"),
    (model(baseURL="http://a b/v1"), "spec.model.baseURL", "should match"),
    (model(baseURL="http://user:secret@llm/v1"), "spec.model.baseURL", "must not hold a user or password"),
    (model(baseURL="http://llm/v1?key=secret"), "spec.model.baseURL", "must not have a query or fragment"),
    (vast(baseURL="https://console.vast.ai#top"), "spec.fleet.vast.baseURL", "must not have a query or fragment"),
    ({"demand": {"static": ABSENT, "http": {"url": "ftp://x"}}}, "spec.demand.http.url", "should match"),
    ({"demand": {"static": ABSENT, "prometheus": {"url": "http://p"}}}, "spec.demand.prometheus.query", "Required"),
    ({"demand": {"static": ABSENT, "curio": {"dsnSecretRef": "db"}}}, "spec.demand.curio.dsnSecretRef", "object"),
    # names
    (model(name=""), "spec.model.name", "at least 1"),
    (model(apiKeySecretRef=KEY | {"name": "LLM_key"}), "spec.model.apiKeySecretRef.name", "should match"),
    (model(apiKeySecretRef=KEY | {"key": "a/b"}), "spec.model.apiKeySecretRef.key", "should match"),
    ({"alerts": {"notifySecretRef": {"name": "pager"}}}, "spec.alerts.notifySecretRef.key", "Required"),
    (instance(image=""), "spec.fleet.vast.instance.image", "at least 1"),
    (instance(image="curio prover"), "spec.fleet.vast.instance.image", "should match"),
    (instance(workerURLEnv="1URL"), "spec.fleet.vast.instance.workerURLEnv", "should match"),
    (instance(workerURLEnv="MIN_RATE"), "spec.fleet.vast.instance", "workerURLEnv must not be MIN_RATE"),
    (instance(env={"A-B": "x"}), "spec.fleet.vast.instance.env", "env must have names of letters"),
    (instance(env={"A" * 257: "x"}), "spec.fleet.vast.instance.env", "env must have names of letters"),
    (instance(env={"A": "x" * 257}), "spec.fleet.vast.instance.env.A", "may not be more than 256"),
    (instance(env={"A": 1}), "spec.fleet.vast.instance.env.A", "string"),
    (instance(env={"MIN_RATE": "1"}), "spec.fleet.vast.instance.env", "env must not set MIN_RATE"),
    (instance(env={"FLEETAGENT_URL": "x"}), "spec.fleet.vast.instance", "the variable that workerURLEnv names"),
    (instance(env={f"A{n}": "" for n in range(65)}), "spec.fleet.vast.instance.env", "at most 64"),
    # words
    ({"instructions": "x" * 16_385}, "spec.instructions", "may not be more than 16384"),
    ({"instructions": "a\x00b"}, "spec.instructions", "should match"),
    ({"context": {"session": "a\nb"}}, "spec.context.session", "should match"),
    # what the operator fills in itself
    (parameters(model="other"), "spec.model.parameters", "parameters must not set model"),
    (parameters(messages=[]), "spec.model.parameters", "parameters must not set messages"),
    (parameters(messages="none"), "spec.model.parameters.messages", "array"),
    (parameters(tools=[{"type": "function"}]), "spec.model.parameters", "parameters must not set tools"),
    (parameters(tool_choice="none"), "spec.model.parameters", "parameters must not set tool_choice"),
    (parameters(tool_choice={"type": "function"}), "spec.model.parameters.tool_choice", "unknown field"),
    (parameters(stream=True), "spec.model.parameters", "parameters must not set stream"),
    (parameters(n=2), "spec.model.parameters", "parameters must not set n"),
    (parameters(max_tokens=10), "spec.model.parameters", "parameters must not set max_tokens"),
]


def _id(case: tuple[Json, str, str]) -> str:
    return f"{case[1]}: {json.dumps(case[0], default=lambda _: 'absent')[:60]}"


@pytest.mark.parametrize(("changes", "path", "words"), REFUSED, ids=map(_id, REFUSED))
def test_a_bad_spec_is_refused_in_words_that_name_the_field(
    control_plane: ControlPlane, namespace: str, changes: Json, path: str, words: str
) -> None:
    url = f"/apis/fleetagent.dev/v1alpha1/namespaces/{namespace}/fleetagents?fieldValidation=Strict&dryRun=All"

    with pytest.raises(ApiError) as refusal:
        control_plane.api.call("POST", url, a_manifest(namespace=namespace, spec=changes))

    assert refusal.value.status in {400, 422}
    assert path in str(refusal.value)
    assert words in str(refusal.value)
