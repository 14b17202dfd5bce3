"""What a person hands to the model without a tool call: resources by address, and prompts.

A prompt becomes the user's own words to the model, so nothing that is stored stands in one. It names no tool: each
profile has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filemem.dialects.tool import Argument, Prompt, Resource

if TYPE_CHECKING:
    pass


RESOURCES = (
    Resource(
        "filemem://checkpoint/latest",
        "latest checkpoint",
        "Where the work stands: this branch's and your latest checkpoint.",
        "application/json",
        "load_checkpoint",
    ),
    Resource(
        "filemem://topic/{topic}",
        "topic",
        "How a topic was decided, oldest first, and what holds today.",
        "application/json",
        "timeline",
        lambda memory: memory.topic_keys(),
    ),
    Resource(
        "filemem://decision/{id}",
        "decision",
        "One decision with its reasons, edges and provenance.",
        "application/json",
        "get",
    ),
)
PROMPTS = (
    Prompt(
        "resume",
        "Resume the work",
        "Go on from the latest checkpoint, knowing what was decided since.",
        (Argument("branch", "whose checkpoint", usual="the branch that is checked out"),),
        "Go on with the work on this project. Load the latest checkpoint of {branch} from the project's memory, and "
        "see what was decided since. Look at what has changed in the repository, say in a few sentences what is done "
        "and what comes next, and go on with it. Before you stop, save a new checkpoint.",
    ),
    Prompt(
        "record-decision",
        "Record a decision",
        "Save what was decided, with its reasons, knowing what holds on the topic today.",
        (
            Argument("topic", "what it is about, e.g. auth_strategy", required=True),
            Argument("decision", "what was decided", usual="take it from our conversation"),
        ),
        "Record a decision on the topic {topic} in the project's memory. See first what was decided on it so far: the "
        "new decision replaces what holds. If nothing changes, say so and save nothing.\n\nThe decision: {decision}\n\n"
        "Save topic, decision in one sentence, reasoning (why, in terms that hold in a year), rejected (each "
        "alternative, and why not), affects (the paths it governs). Ask me for what you do not know; invent nothing.",
    ),
)
