"""What a model said, apart from what it thought and from what its template would have swallowed.

Servers without a fitting parser leave thoughts and end-of-turn tokens in the text. Replayed, they would be read as
thoughts and ends again, so they are taken out where a reply is read, and once more where it is stored and shown.
"""

import re
from typing import Final

_THINKING = re.compile(r"(?i)<(/?)think(?:ing)?>")
_END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|eom_id|end_of_text|endoftext|end)\|>|<end_of_turn>|</s>")

CALL_MARK: Final = re.compile(r"</?tool_call>|<function=")
"""Where a call begins that was written as text, or ends whose beginning a server has swallowed."""


def spoken(text: str) -> str:
    """The words alone; a text without any tag stays as it is, and what is left holds none."""
    return apart(text)[0] if "<" in text else text


def apart(text: str) -> tuple[str, str]:
    """Words and leaked thoughts: whole blocks, all before a lone closer, all after an opener that is never closed.

    What follows an end of turn belongs to nobody: a model that was not stopped there plays both sides.
    """
    said: list[str] = []
    thoughts: list[str] = []
    opened: int | None = None  # where the thought began that goes on
    place = 0
    for tag in _THINKING.finditer(text):
        if opened is None:
            said.append(text[place : tag.start()])
        closes = bool(tag[1])
        if closes and opened is None:
            thoughts.append(_joined(said))
            said = []
        elif closes:
            thoughts.append(text[opened : tag.start()])
            opened = None
        elif opened is None:
            opened = tag.end()
        place = tag.end()
    (said if opened is None else thoughts).append(text[place if opened is None else opened :])
    thought = _THINKING.sub("", "\n".join(filter(None, (t.strip() for t in thoughts))))
    return _END_OF_TURN.split(_joined(said), maxsplit=1)[0].strip(), thought


def _joined(parts: list[str]) -> str:
    """All of them, never so close that a new tag comes of two halves."""
    spaced: list[str] = []
    for part in filter(None, parts):
        if spaced and not spaced[-1][-1].isspace() and not part[0].isspace():
            spaced.append(" ")
        spaced.append(part)
    return "".join(spaced)
