"""One answer of the model: counted when asked for, paid for when it is there, its failures told from all others."""

from fleetagent.agent.counting import learn_window, refused
from fleetagent.agent.paying import pay
from fleetagent.agent.transcript import Transcript
from fleetagent.domain.model import ModelRequest, NothingUsable, Reply
from fleetagent.domain.records import Spent
from fleetagent.errors import BadReply, BadResource, ModelFailed, ModelLoading, PromptTooLong, TryLater
from fleetagent.ports import Model

UNAVAILABLE = "Unavailable"
BAD_REPLY = "BadReply"


async def ask(transcript: Transcript, model: Model, request: ModelRequest, estimated: int) -> Reply:
    """The answer to `request`, of about `estimated` tokens. `ModelFailed`, `PromptTooLong` or `BadPrompt`."""
    transcript.spent += Spent(model_calls=1)
    endpoint = transcript.subject.spec.model
    try:
        reply = await model.reply(request)
    except PromptTooLong as error:
        learn_window(transcript, error.limit_tokens)
        if request.may_call_tools:  # a summary's request says nothing of what the conversation counts
            await refused(transcript, error, request, estimated)
        raise
    except BadResource as error:
        raise ModelFailed(error.reason, str(error)) from error
    except BadReply as error:
        if isinstance(error, NothingUsable) and error.reply is not None:
            await pay(transcript, error.reply, estimated)
        raise ModelFailed(
            BAD_REPLY,
            f"{error}; the next run asks again. If it lasts, see that the server of {endpoint.base_url} serves "
            f"{endpoint.name} with tools",
        ) from error
    except ModelLoading as error:
        raise ModelFailed(
            "ModelLoading",
            f"{error}; the next run asks again. A large model loads for many minutes: wait for it, or see the log of "
            f"the server of {endpoint.base_url}",
        ) from error
    except TryLater as error:
        raise ModelFailed(
            UNAVAILABLE,
            f"{error}; the next run asks again. If it lasts, see that {endpoint.base_url} is up, or raise "
            "spec.model.timeout if it is slow",
        ) from error
    await pay(transcript, reply, estimated)
    return reply
