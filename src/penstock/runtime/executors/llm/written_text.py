"""The text of a model's answer: in a whole answer, and in the events of one that is still being written.

An answer that has to fit a schema is the call of the tool `answer`, and its text is the JSON that the model writes as
the arguments; without such a call, it is what the model writes. A model may write something before it calls `answer`.
Readers get that until the call begins, where the text restarts. So in the end readers have the text of the whole
answer.

Above it: `pydantic_ai`. Below it: the messages of the library, `port`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from penstock.runtime.executors.llm.port import TextReader
from penstock.runtime.executors.llm.tool_names import ANSWER_TOOL

__all__ = ["WrittenText", "text_of_answer"]


def text_of_answer(response: ModelResponse) -> str:
    """Return the text of a whole answer."""
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == ANSWER_TOOL:
            return _arguments_text(part.args or {})
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


@dataclass(slots=True)
class WrittenText:
    """Tells a reader the text of an answer while its events arrive."""

    reader: TextReader
    size: int = 0
    """How many characters the model has written, those of calls included."""
    answer_index: int | None = None
    """Which part of the answer is the call of `answer`, if that has begun."""

    def take(self, event: ModelResponseStreamEvent) -> None:
        """Take the next event of a stream."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                self.size += len(text)
                if text and self.answer_index is None:
                    self.reader.say(text)
            case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=args)):
                # The first one counts. A part that is sent as a whole again begins again.
                if name == ANSWER_TOOL and self.answer_index in (None, index):
                    self.answer_index = index
                    self.reader.begin()
                self._call(index, args)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)):
                self._call(index, args)
            case _:
                pass

    def _call(self, index: int, args: Any) -> None:
        if not args:
            return
        text = _arguments_text(args)
        self.size += len(text)
        if index == self.answer_index:
            self.reader.say(text)


def _arguments_text(args: Any) -> str:
    """Return arguments as text; the library has several types of objects for them."""
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
