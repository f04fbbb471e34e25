"""Objects drawn from a CRD's own schema: mostly within its types and bounds, at times just outside of them."""

import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from fleetagent.domain.resource.steering import CRON_PATTERN, TIME_ZONE_PATTERN
from fleetagent.domain.resource.values import DURATION_PATTERN, HTTP_URL_PATTERN, MOMENT_PATTERN, USD_PATTERN

Schema = Mapping[str, Any]
Values = st.SearchStrategy[Any]

JSON_TEXT = st.characters(codec="utf-8")  # no lone surrogates: Go cannot hold them
WORDS = st.text(string.ascii_letters, min_size=1, max_size=8)
ANY_JSON = st.recursive(  # floats that Go and Python write alike
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
ZONES = st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(
    lambda offset: timezone(timedelta(minutes=round(offset.total_seconds() / 60)))
)


def drawn_from(schema: Schema) -> Values:
    """Values of this structural schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 9) | WORDS
    if "type" not in schema:
        return ANY_JSON
    return _OF_TYPE[schema["type"]](schema)


def _object(schema: Schema) -> Values:
    if "additionalProperties" in schema:
        values = drawn_from(schema["additionalProperties"])
        return st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), values, max_size=3)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return st.dictionaries(WORDS, ANY_JSON, max_size=4)
    parts = {name: drawn_from(part) for name, part in schema["properties"].items()}
    if schema.get("maxProperties") == 1:
        return st.sampled_from(sorted(parts)).flatmap(lambda name: st.fixed_dictionaries({name: parts[name]}))
    required = {name: parts.pop(name) for name in schema.get("required", ())}
    optional = {name: _now_and_then(st.none(), part) for name, part in parts.items()}
    optional["unheardOf"] = ANY_JSON
    return st.fixed_dictionaries(required, optional=optional)


def _array(schema: Schema) -> Values:
    most = min(schema["maxItems"], 3)
    unique = schema.get("x-kubernetes-list-type") == "set"
    return st.lists(drawn_from(schema["items"]), min_size=schema.get("minItems", 0), max_size=most, unique=unique)


def _integer(schema: Schema) -> Values:
    least, most = schema.get("minimum", -9), schema.get("maximum", 9)
    within = st.integers(least, most)
    return _now_and_then(st.sampled_from([least - 1, most + 1]), within | within.map(float))


def _number(schema: Schema) -> Values:
    least, most = schema["minimum"], schema["maximum"]
    return st.floats(least, most) | st.integers(least, most) | st.sampled_from([least, most])


def _string(schema: Schema) -> Values:
    if schema.get("maxLength") == 128:  # the only field of this size is cron, whose pattern stands in its rule
        usual = st.sampled_from(["*/5 * * * *", "0 8-18/2 * JAN-MAR MON,FRI", "0 0 31 2 7"])
        return _now_and_then(st.from_regex(CRON_PATTERN, fullmatch=True), usual)
    return _OF_PATTERN.get(schema.get("pattern"), _matching)(schema)


def _moment(schema: Schema) -> Values:
    moments = st.datetimes(datetime(2000, 1, 2), datetime(2999, 12, 30), timezones=st.just(UTC) | ZONES)  # noqa: DTZ001
    return _now_and_then(_matching(schema), moments.map(datetime.isoformat))


def _usd(schema: Schema) -> Values:
    return st.sampled_from(["0", "0.008", "4.00", "000000001.5", "999999999.999999999"]) | _matching(schema)


def _time_zone(schema: Schema) -> Values:
    return _now_and_then(_matching(schema), st.sampled_from(["UTC", "Europe/Berlin", "Etc/GMT+5"]))


def _url(_: Schema) -> Values:
    host = _now_and_then(st.sampled_from(["-", "user@host", ""]), st.sampled_from(["a", "model.test", "[::1]"]))
    path = _now_and_then(st.sampled_from(["/v1?a=b", "#c"]), st.sampled_from(["", "/", "/v1", "/v1/ä"]))
    return st.builds("http{}://{}{}{}".format, st.sampled_from(["", "s"]), host, st.sampled_from(["", ":8000"]), path)


def _matching(schema: Schema) -> Values:
    least, most = schema.get("minLength", 0), schema["maxLength"]
    if "pattern" not in schema:
        return st.text(JSON_TEXT, min_size=least, max_size=min(most, 20))
    return st.from_regex(schema["pattern"], fullmatch=True, alphabet=JSON_TEXT).filter(
        lambda text: least <= len(text) <= most
    )


def _duration(schema: Schema) -> Values:
    """Within the bounds that the schema's rule states, at both ends too; at times anything of the right form."""
    (rule,) = schema["x-kubernetes-validations"]
    least, most = (_seconds(part.split("'")[0]) for part in rule["rule"].split("duration('")[1:])
    within = st.integers(least, most) | st.sampled_from([least, most])
    written = st.sampled_from([_in_seconds, _in_parts])
    return _now_and_then(_matching(schema), st.builds(lambda write, seconds: write(seconds), written, within))


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def _in_seconds(seconds: int) -> str:
    return f"{seconds}s" if seconds < 10**8 else _in_parts(seconds)


def _in_parts(seconds: int) -> str:
    return f"{seconds // 86_400}d{seconds // 3600 % 24}h{seconds // 60 % 60:02}m{seconds % 60}s"


def _now_and_then(rare: Values, usual: Values) -> Values:
    return st.integers(0, 39).flatmap(lambda dice: rare if dice == 7 else usual)


_OF_PATTERN: Mapping[str | None, Callable[[Schema], Values]] = {
    DURATION_PATTERN: _duration,
    MOMENT_PATTERN: _moment,
    USD_PATTERN: _usd,
    TIME_ZONE_PATTERN: _time_zone,
    HTTP_URL_PATTERN: _url,
}
_OF_TYPE: Mapping[str, Callable[[Schema], Values]] = {
    "object": _object,
    "array": _array,
    "integer": _integer,
    "number": _number,
    "string": _string,
    "boolean": lambda _: st.booleans(),
}
