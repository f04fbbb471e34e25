"""What the model client takes of our CPU for one request: all but the network."""

import json
import statistics
import time

import httpx2

from fleetagent.adapters.model.client import OpenAIModel
from fleetagent.domain.model import ModelRequest

REPEATED = 100
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "bench",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "On target, held."}}],
    "usage": {"prompt_tokens": 9_000, "completion_tokens": 9, "total_tokens": 9_009},
}


async def ms_per_request(request: ModelRequest) -> float:
    """The median of many, each answered in place."""
    answer = json.dumps(ANSWER).encode()

    def answered(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=answer, headers={"content-type": "application/json"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answered)) as http:
        model = OpenAIModel(base_url="http://model.test/v1", api_key=None, name="bench", http=http)
        taken = []
        for _ in range(REPEATED):
            began = time.process_time()
            await model.reply(request)
            taken.append(time.process_time() - began)
    return 1000 * statistics.median(taken)
