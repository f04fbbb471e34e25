"""What an answer of the model costs, booked as soon as it is there."""

from dataclasses import replace

from fleetagent.agent.transcript import Transcript
from fleetagent.domain.conversation.counts import ABSURD_TIMES, believable
from fleetagent.domain.model import Reply
from fleetagent.domain.money import model_usd
from fleetagent.domain.records import Spent
from fleetagent.domain.resource import TokenPrices


async def pay(transcript: Transcript, reply: Reply, estimated: int) -> None:
    """Book what one answer cost, and those that were thrown away before it: a run that fails has paid, too.

    Where the server did not count, our estimate stands in and is marked: unknown is not free.
    """
    for thrown_away in reply.discarded:
        await pay(transcript, thrown_away, estimated)
        transcript.spent += Spent(model_calls=1)
    usage, count = reply.usage, transcript.count
    spoken = sum(map(count, [reply.text, reply.reasoning, *(f"{c.name}{c.arguments}" for c in reply.calls)]))
    tokens_in, tokens_out = believable(usage.prompt_tokens, estimated), usage.completion_tokens
    if tokens_out is not None and tokens_out > ABSURD_TIMES * max(spoken, transcript.budget.reply):
        tokens_out = None
    bill = _bill(
        transcript.subject.spec.model.usd_per_million_tokens,
        Spent(
            model_calls=1,
            tokens_in=estimated if tokens_in is None else tokens_in,
            tokens_out=spoken if tokens_out is None else tokens_out,
            tokens_cached=(usage.cached_tokens or 0) if tokens_in is not None else 0,
            tokens_estimated=tokens_in is None or tokens_out is None,
        ),
    )
    transcript.spent += replace(bill, model_calls=0)  # the call was counted when it was made
    await transcript.conversation.book(transcript.run, bill)


def _bill(prices: TokenPrices | None, spent: Spent) -> Spent:
    if prices is None:
        return spent
    usd = model_usd(
        spent.tokens_in,
        spent.tokens_cached,
        spent.tokens_out,
        input_price=prices.input,
        cached_price=prices.cached_input,
        output_price=prices.output,
    )
    return replace(spent, usd=usd)
