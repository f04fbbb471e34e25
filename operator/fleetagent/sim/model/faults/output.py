"""Malformed assistant output inside a 200, and what the same server says when it is sent back."""

import json

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, nested_error

THOUGHTS = "The user wants the fleet on target. Let me think about which offers would be"


def _only_reasoning(moment: Moment) -> Answer:
    return moment.completed({"content": None, "reasoning_content": THOUGHTS}, "length")


def _only_reasoning_vllm(moment: Moment) -> Answer:
    return moment.completed({"content": "", "reasoning": THOUGHTS, "tool_calls": []}, "length")


def _empty_replayed(_: Moment) -> Answer:
    message = "Assistant message must contain either 'content' or 'tool_calls'!"
    return nested_error(400, message, kind="invalid_request_error", code=400)


def _cut(arguments: str) -> str:
    return arguments[: max(len(arguments) // 2, 1)]


def _broken_arguments_replayed(_: Moment) -> Answer:
    message = "Unterminated string starting at: line 1 column 14 (char 13)"
    return nested_error(400, message, kind="BadRequestError", code=400)


def _broken_arguments_replayed_llama(_: Moment) -> Answer:
    message = "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1"
    return nested_error(500, message, kind="server_error", code=500)


def _hermes_text(moment: Moment) -> Answer:
    texts = [
        json.dumps({"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])})
        for call in moment.calls
    ]
    return moment.completed({"content": "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts)})


def _qwen_text(moment: Moment) -> Answer:
    blocks = []
    for call in moment.calls:
        arguments = json.loads(call["function"]["arguments"])
        parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items())
        blocks.append(f"<function={call['function']['name']}>\n{parameters}</function>\n</tool_call>")
    return moment.completed({"content": "\n".join(blocks), "tool_calls": None})


FAULTS = (
    Fault("A20", "llama.cpp", _only_reasoning),
    Fault("A20/vllm", "vLLM", _only_reasoning_vllm),
    Fault("A20/replayed", "llama.cpp", _empty_replayed),
    Fault("A21", "vLLM", lambda moment: moment.calling_with_arguments(_cut)),
    Fault("A21/length", "vLLM", lambda moment: moment.calling_with_arguments(_cut, "length")),
    Fault("A21/replayed", "vLLM", _broken_arguments_replayed),
    Fault("A21/replayed-llama.cpp", "llama.cpp", _broken_arguments_replayed_llama),
    Fault("A22", "any", lambda moment: moment.calling_with_arguments(lambda _: "")),
    Fault("A22/null", "any", lambda moment: moment.calling_with_arguments(lambda _: None)),
    Fault("A24", "LM Studio", lambda moment: moment.calling_with(call_id="")),
    Fault("A25", "Xinference", lambda moment: moment.calling_with(call_id="call_0")),
    Fault("A27", "Ollama", _hermes_text),
    Fault("A27/qwen", "Ollama", _qwen_text),
)
