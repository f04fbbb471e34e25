"""An OpenAI-compatible server whose answers come from a scripted policy, not from a language model.

A request passes, in this order:
`parse` (shape) and `rules` (order of messages) say what real servers refuse, `personality` what this one does,
`count` says how many tokens the rendered prompt has, `cache` how many of them it saw before,
`faults` and `script` give the answers that a test asked for, `policy` all others,
`counters` tells the count to who asks for it on the paths of vLLM or llama.cpp,
`record` keeps what was asked and answered, `control` shows it under /_sim.

It shares no code with the client: a misreading of the wire format that both had would pass every test.
"""

from fleetagent.sim.model.config import ModelConfig
from fleetagent.sim.model.serve import ModelServer, add_arguments, main, running

__all__ = ["ModelConfig", "ModelServer", "add_arguments", "main", "running"]
