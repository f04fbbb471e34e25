"""Measures one peer, in the environment that bench/history.py makes for it; a line of JSON for each mark."""

import argparse
import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from bench.peers.same import MESSAGES, OBSERVATION, RESULT, TOOL, VERDICT, Side, measured
from sqlalchemy.ext.asyncio import create_async_engine

RUNS_IN_ONE_FILL = 500


class LangGraph:
    """A graph of a model and a tools node on AsyncPostgresSaver: each step stores the whole conversation."""

    def __init__(self, app: Any, first_message: Callable[..., Any]) -> None:
        self._app = app
        self._first_message = first_message
        self._thread = {"configurable": {"thread_id": "a"}}
        self._stored = 0

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator[Side]:
        """On an empty database."""
        # Only one peer is loaded in a process: they are large.
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # type: ignore[import-not-found]  # noqa: PLC0415
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # type: ignore[import-not-found]  # noqa: PLC0415
        from langgraph.graph import END, START, MessagesState, StateGraph  # type: ignore[import-not-found]  # noqa: PLC0415

        def model(state: Any) -> Any:
            messages = state["messages"]
            if isinstance(messages[-1], HumanMessage):
                call = {"id": f"call_{len(messages)}", "name": TOOL, "args": {}}
                return {"messages": [AIMessage(content="", tool_calls=[call])]}
            return {"messages": [AIMessage(content=VERDICT)]}

        def tools(state: Any) -> Any:
            return {"messages": [ToolMessage(content=RESULT, tool_call_id=state["messages"][-1].tool_calls[0]["id"])]}

        def then(state: Any) -> Any:
            return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            graph = StateGraph(MessagesState)
            graph.add_node("model", model)
            graph.add_node("tools", tools)
            graph.add_edge(START, "model")
            graph.add_edge("tools", "model")
            graph.add_conditional_edges("model", then)
            yield cls(graph.compile(checkpointer=saver), HumanMessage)

    async def run(self, n: int) -> None:
        """The graph from its start to its end."""
        await self._app.ainvoke({"messages": [self._first_message(content=OBSERVATION.format(n=n))]}, self._thread)
        self._stored += 1

    async def load(self) -> None:
        """The newest state."""
        found = (await self._app.aget_state(self._thread)).values["messages"]
        if len(found) != MESSAGES * self._stored:
            raise RuntimeError("it does not give back what was stored")

    async def fill(self, first: int, last: int) -> None:
        """There is no faster way."""
        for n in range(first, last + 1):
            await self.run(n)


class AgentsSDK:
    """SQLAlchemySession: a run begins with reading all items and ends with adding its own."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._stored = 0

    @classmethod
    @asynccontextmanager
    async def on(cls, url: str) -> AsyncIterator[Side]:
        """On an empty database."""
        from agents.extensions.memory import SQLAlchemySession  # type: ignore[import-not-found]  # noqa: PLC0415

        engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        try:
            yield cls(SQLAlchemySession("a", engine=engine, create_tables=True))
        finally:
            await engine.dispose()

    async def run(self, n: int) -> None:
        """As the SDK's runner does it."""
        await self._session.get_items()
        await self.fill(n, n)

    async def load(self) -> None:
        """All items."""
        if len(await self._session.get_items()) != MESSAGES * self._stored:
            raise RuntimeError("it does not give back what was stored")

    async def fill(self, first: int, last: int) -> None:
        """The same rows in a few calls: each run would first read all that came before it."""
        for begin in range(first, last + 1, RUNS_IN_ONE_FILL):
            runs = range(begin, min(begin + RUNS_IN_ONE_FILL, last + 1))
            await self._session.add_items([item for n in runs for item in _items(n)])
            self._stored += len(runs)


def _items(n: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": OBSERVATION.format(n=n)},
        {"type": "function_call", "call_id": f"call_{n}", "name": TOOL, "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"call_{n}", "output": RESULT},
        {"role": "assistant", "content": VERDICT},
    ]


PEERS: dict[str, Callable[[str], AbstractAsyncContextManager[Side]]] = {
    "langgraph": LangGraph.on,
    "agents-sdk": AgentsSDK.on,
}


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("marks", type=int, nargs="+", help="run numbers, rising")
    parser.add_argument("--url", required=True)
    parser.add_argument("--filled-after", type=int, required=True)
    told = parser.parse_args()
    async with PEERS[told.peer](told.url) as side:
        async for figures in measured(side, told.url, told.marks, told.filled_after):
            print(json.dumps(dataclasses.asdict(figures)), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
