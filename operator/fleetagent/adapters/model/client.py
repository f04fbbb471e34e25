"""The border to the SDK: sends one request, hands back what came, lets none of its exceptions through."""

import asyncio
import itertools
import ssl
from collections.abc import Awaitable, Iterator
from datetime import timedelta
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, Omit

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.adapters.model.bounded import AnswerTooLarge, BoundedTransport
from fleetagent.adapters.model.complaints import CONDITION, Endpoint
from fleetagent.adapters.model.gate import Gate
from fleetagent.adapters.model.payload import Habits, body_of
from fleetagent.adapters.model.pursuit import Means, Pursuit
from fleetagent.adapters.model.redact import redacted, shortened
from fleetagent.adapters.model.sizes import LONGEST_SECONDS, ServersOwn, Sizes
from fleetagent.adapters.model.waits import Timing
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.errors import BadPrompt, BadResource, PromptTooLong

USER_AGENT = "fleetagent"
NO_KEY = "not-needed"
CONNECT_SECONDS = 10.0
LIST_MODELS_SECONDS = 10.0
NAMES_READ = 200
NAME_CHARS = 100
TIMEOUTS_OF_PATIENCE = 2


def model_http_client() -> httpx2.AsyncClient:
    """The connection pool that all endpoints of this process share.

    It reads no proxy settings or certificates from the environment and follows no redirect: an allowed host must not
    be able to send us to a forbidden one. Of an endless answer it reads an end. It keeps no cookies: they would be sent
    with the next agent's key.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=50, keepalive_expiry=30.0)
    transport = BoundedTransport(trust_env=False, limits=limits)
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx2.AsyncClient(trust_env=False, follow_redirects=False, transport=transport, cookies=cookies)


class OpenAIModel:
    """Implements ports.Model. Cheap to make; `http`, `habits` and `gate` outlive it and are shared.

    The caller closes `http`. Making it raises `BadResource` for a base URL or a key that can't be used at all. A whole
    reply, repetitions included, takes no longer than `patience`, by default twice the request's timeout.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        name: str,
        http: httpx2.AsyncClient,
        habits: Habits | None = None,
        gate: Gate | None = None,
        sizes: Sizes | None = None,
        patience: timedelta | None = None,
        timing: Timing | None = None,
    ) -> None:
        url, key = _usable_url(base_url), _usable_key(api_key)
        shown = str(url.copy_with(username=None, password=None, query=None))
        self._client = _Client(api_key=key or NO_KEY, base_url=url, http_client=http)
        self._patience = patience
        self._means = Means(
            send=self._send,
            offered=self.offered_models,
            hide=partial(redacted, secrets=tuple(filter(None, (key, url.password)))),
            endpoint=Endpoint(url=shown, model=name, has_key=bool(key)),
            habits=habits or Habits(),
            gate=gate or Gate(),
            timing=timing or Timing(),
        )
        self._own = ServersOwn(
            self._fetch, base_url=str(url), model=name, sizes=sizes or Sizes(), monotonic=self._means.timing.monotonic
        )

    async def reply(self, request: ModelRequest) -> Reply:
        """One answer, after the repetitions that make sense; errors as ports.Model promises."""
        patience = self._patience or request.timeout * TIMEOUTS_OF_PATIENCE
        try:
            reply = await Pursuit(self._means, request, patience_seconds=patience.total_seconds()).reply()
        except PromptTooLong as error:
            self._own.refused_at(error.limit_tokens)
            raise
        self._own.accepted(reply.usage.prompt_tokens)
        return reply

    async def context_window(self) -> int | None:
        """See `ports.Model.context_window`."""
        return await self._own.window()

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `ports.Model.count_tokens`."""
        means = self._means
        return await self._own.count(body_of(request, means.endpoint.model, means.habits, request.max_output_tokens))

    async def offered_models(self) -> tuple[str, ...]:
        """The names that /models lists; empty when the server does not say."""
        answer = await _caught(self._client.get("/models", cast_to=httpx2.Response), LIST_MODELS_SECONDS)
        body = answer.json if isinstance(answer, Answer) else None
        entries = body.get("data") if isinstance(body, dict) else None
        names = (entry.get("id") for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()
        shown = (shortened(self._means.hide(name), NAME_CHARS) for name in names if isinstance(name, str))
        return tuple(itertools.islice(shown, NAMES_READ))

    async def _fetch(self, url: str, body: JsonObject | None) -> Answer | NoAnswer:
        client = self._client
        if body is None:
            return await _caught(client.get(url, cast_to=httpx2.Response), LONGEST_SECONDS)
        try:
            return await _caught(client.post(url, cast_to=httpx2.Response, body=body), LONGEST_SECONDS)
        except ValueError as error:  # no JSON: the request itself will say so
            return NoAnswer(Because.URL, str(error))

    async def _send(self, body: JsonObject, timeout_seconds: float) -> Answer | NoAnswer:
        return await _caught(self._completion(body, timeout_seconds), timeout_seconds)

    async def _completion(self, body: JsonObject, timeout_seconds: float) -> httpx2.Response:
        """The raw response. Messages go as `extra_body`: typed arguments cost the SDK 24 ms of CPU instead of 0.5."""
        try:
            raw = await self._client.chat.completions.with_raw_response.create(
                model=self._means.endpoint.model,
                messages=(),
                extra_body=body,
                timeout=httpx2.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            )
        except ValueError as error:  # a lone surrogate, or a number that is none
            raise BadPrompt(f"the request can't be written as JSON: {error}") from error
        return raw.http_response


class _Client(AsyncOpenAI):
    """The SDK without what it reads from the environment and without its own repetitions."""

    def __init__(self, *, api_key: str, base_url: httpx2.URL, http_client: httpx2.AsyncClient) -> None:
        super().__init__(
            api_key=api_key,
            admin_api_key="",
            organization="",
            project="",
            webhook_secret="",
            base_url=base_url,
            max_retries=0,
            http_client=http_client,
        )

    @property
    def default_headers(self) -> dict[str, str | Omit]:
        """Ours alone: OPENAI_CUSTOM_HEADERS stays out, and so does what the SDK tells about this machine."""
        return {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": USER_AGENT}


async def _caught(call: Awaitable[httpx2.Response], timeout_seconds: float) -> Answer | NoAnswer:
    """Whatever comes of this call, as a value; the time limit holds for a body that trickles in, too."""
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await call
    except APIStatusError as error:
        response = error.response
    except (TimeoutError, APITimeoutError) as error:
        return _no_answer_in_time(error, timeout_seconds)
    except APIConnectionError as error:
        return _no_connection(error)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, response.content, headers)


def _no_answer_in_time(error: Exception, timeout_seconds: float) -> NoAnswer:
    if any(isinstance(cause, httpx2.ConnectTimeout) for cause in _causes(error)):
        return NoAnswer(Because.CONNECTION, "connecting took too long")
    return NoAnswer(Because.TIMEOUT, f"no whole answer within {timeout_seconds:.0f} s")


def _no_connection(error: Exception) -> NoAnswer:
    causes = list(_causes(error))
    words = next((str(cause) for cause in causes[1:] if str(cause)), str(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return NoAnswer(Because.CERTIFICATE, words)
    if any(isinstance(cause, AnswerTooLarge) for cause in causes):
        return NoAnswer(Because.SIZE, words)
    if any(isinstance(cause, httpx2.UnsupportedProtocol) for cause in causes):
        return NoAnswer(Because.URL, words)
    return NoAnswer(Because.CONNECTION, f"{type(causes[min(1, len(causes) - 1)]).__name__}: {words}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _usable_url(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text.strip())
    except httpx2.InvalidURL as error:
        raise BadResource(CONDITION, "BadURL", f"spec.model.baseURL is no URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadResource(CONDITION, "BadURL", "spec.model.baseURL must begin with http:// or https:// and name a host")
    return url


def _usable_key(text: str | None) -> str:
    """Without the line break that Secrets often end with; what can't stand in a header is refused here."""
    key = (text or "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise BadResource(
            CONDITION,
            "KeyRefused",
            "the API key in the Secret of spec.model.apiKeySecretRef holds spaces, line breaks or characters that "
            "are no ASCII: put in the key alone",
        )
    return key
