"""What a person can hand to the model without a tool call: resources by address, and prompts. Data only.

The functions behind them are `filemem.dialects.native_reading_calls`. Texts here are static, as for tools.
"""

from __future__ import annotations

from functools import partial

from filemem.dialects.profiles import Argument, Prompt, Resource, Tool, later
from filemem.dialects.shapes import READS, TEXT, arguments

_call = partial(later, "filemem.dialects.native_reading_calls")
_JSON = "application/json"
_TOPICS = _call("topics")

HIDDEN = (
    Tool(
        name="read_decision",
        description="One decision by id, with reasons, edges and provenance.",
        input_schema=arguments("id", id=TEXT),
        annotations=READS,
        call=_call("decision"),
    ),
)

RESOURCES = (
    Resource(
        uri="filemem://checkpoint/latest",
        name="latest checkpoint",
        description="Where the work stands: this branch's and your latest checkpoint.",
        mime=_JSON,
        tool="load_checkpoint",
    ),
    Resource(
        uri="filemem://topic/{topic}",
        name="topic",
        description="How a topic was decided, oldest first, and what holds today.",
        mime=_JSON,
        tool="timeline",
        complete=_TOPICS,
        listed=True,
    ),
    Resource(
        uri="filemem://decision/{id}",
        name="decision",
        description="One decision with its reasons, edges and provenance.",
        mime=_JSON,
        tool="read_decision",
        complete=_call("decisions"),
    ),
)

PROMPTS = (
    Prompt(
        name="resume",
        title="Resume the work",
        description="Go on from the latest checkpoint, knowing what was decided since.",
        arguments=(Argument("branch", "whose checkpoint; default: the branch that is checked out"),),
        call=_call("resume"),
    ),
    Prompt(
        name="record-decision",
        title="Record a decision",
        description="Save what was decided, with its reasons, knowing what holds on the topic today.",
        arguments=(
            Argument("topic", "what it is about, e.g. auth_strategy", required=True, complete=_TOPICS),
            Argument("decision", "what was decided; default: the model takes it from the conversation"),
        ),
        call=_call("record_decision"),
    ),
)
