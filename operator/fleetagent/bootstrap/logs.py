"""How the process logs: one line a decision, for people or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime

from fleetagent.agent.telling import told

WAITS = "failed temporarily: "
RESOURCES_REMEMBERED = 1000
FIELDS = ("agent", "run", "trigger", "outcome", "event", "lease")
"""What a line may have beside what is being worked for."""
LIBRARIES = ("alembic", "httpcore", "httpcore2", "httpx", "httpx2", "kopf", "kubernetes", "openai", "uvicorn")


class TextLines(logging.Formatter):
    """For people: a message is one line, whoever wrote the words in it; a traceback of ours follows it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        """The line, with what would break or hide it written out."""
        record.message = _visible(record.message)
        return super().formatMessage(record)


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class JsonLines(logging.Formatter):
    """One JSON object a line; in it the agent, its run and what called for that, wherever something is done for one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **told(),
            **{name: getattr(record, name) for name in FIELDS if hasattr(record, name)},
        }
        if "agent" not in line and (ref := getattr(record, "k8s_ref", None)):
            line["agent"] = f"{ref.get('namespace')}/{ref.get('name')}"
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class OncePerResource(logging.Filter):
    """What kopf says of a resource: with its name, and a deletion that waits once for each reason, as no error."""

    def __init__(self) -> None:
        super().__init__()
        self._waits_for: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show it."""
        ref = getattr(record, "k8s_ref", None) or {}
        said, uid = record.getMessage(), str(ref.get("uid"))
        if ref:
            record.msg, record.args = f"{ref.get('namespace')}/{ref.get('name')}: {said}", ()
        if WAITS not in said:
            return True
        record.levelno, record.levelname = logging.INFO, "INFO"
        known = self._waits_for.get(uid) == said
        if len(self._waits_for) >= RESOURCES_REMEMBERED:
            self._waits_for.clear()
        self._waits_for[uid] = said
        return not known


def log_as(log_format: str) -> None:
    """Set up the root logger; libraries speak up only when something is wrong. kopf's own story is told by ours."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in LIBRARIES:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("kubernetes.aio.config").setLevel(logging.ERROR)  # what it warns of, our error says
    kopfs = logging.getLogger("kopf.objects")
    kopfs.filters = [OncePerResource()]
