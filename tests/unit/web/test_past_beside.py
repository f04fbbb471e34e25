"""Runs go on in the process that shows the past: what may take long is done in another thread."""

import threading
from collections.abc import Sequence

import pytest

from fleetagent.domain.views import MessageView
from fleetagent.entrypoints.web.page import conversation, runs
from fleetagent.entrypoints.web.page.steps import Step, steps
from support.page import KEY, Premises, a_run


@pytest.mark.parametrize("page", ["runs/412", "conversation?view=everything"])
async def test_what_was_said_is_put_in_order_beside_the_loop(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    within: list[int] = []

    def noted(messages: Sequence[MessageView]) -> tuple[Step, ...]:
        within.append(threading.get_ident())
        return steps(messages)

    monkeypatch.setattr(runs, "steps", noted)
    monkeypatch.setattr(conversation, "steps", noted)
    premises = Premises()
    premises.past.its_runs = [a_run(412)]
    async with premises.client() as browser:
        answer = await browser.get(f"/agents/{KEY.namespace}/{KEY.name}/{page}")

    assert answer.status_code == 200
    assert len(within) == 1
    assert within != [threading.get_ident()]
