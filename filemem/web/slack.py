"""Sending a message or a file to a Slack channel, where the user has configured a bot.

The one owner of slack_sdk.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from filemem import secrets
from filemem.errors import BadInput
from filemem.web.code import read_file
from filemem.web.route import Answer, Arguments, Context, Refused, how_to_install

if TYPE_CHECKING:
    from filemem.config import Web
    from filemem.memory import Memory

SECONDS = 20  # for each request to Slack
LARGEST = 10 << 20  # bytes of a file
TEXT = 40_000  # characters that Slack takes


async def send(context: Context, arguments: Arguments) -> Answer:
    """Send what is asked for."""
    channel = arguments["channel_id"].strip()
    message = arguments.get("message", "")
    named = arguments.get("file_path", "")
    if not message.strip() and not named:
        raise Refused(400, "MISSING_FIELDS", "Missing required field: message or file_path")
    if not context.web.slack_token:
        raise Refused(
            503,
            "NOT_CONFIGURED",
            "Slack is not configured",
            "set SLACK_BOT_TOKEN, the token of a Slack bot",
        )
    _refuse_secret("message", message)
    file = (
        await asyncio.wrap_future(context.ask(lambda memory: _file(memory, named)))
        if named
        else None
    )
    await asyncio.to_thread(_deliver, context.web, channel, message, file)
    return {"success": True, "message": f"Message sent to Slack channel {channel}"}


def _file(memory: Memory, named: str) -> tuple[str, bytes]:
    path, data = read_file(memory, named, LARGEST)
    _refuse_secret("file_path", data.decode("utf-8", "replace"))
    return path.rpartition("/")[2], data


def _refuse_secret(field: str, text: str) -> None:
    """Refuse what looks like a secret: a channel has many readers, and a log of its own."""
    if leaks := secrets.find(text):
        what = f"line {leaks[0].line} looks like a secret ({leaks[0].kind})"
        hint = "remove it, and change it if it was real"
        raise BadInput(f"{field}: {what}; nothing was sent", hint, field=field)


def _deliver(web: Web, channel: str, message: str, file: tuple[str, bytes] | None) -> None:
    """Talk to Slack. Of what goes wrong its word for it is passed on, and nothing else."""
    try:
        from slack_sdk import WebClient  # noqa: PLC0415  an extra, imported by those who use it
        from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415
    except ImportError:
        raise Refused(
            503, "NOT_INSTALLED", "slack_sdk is not installed", how_to_install("slack")
        ) from None
    where = web.slack_url or WebClient.BASE_URL
    client = WebClient(token=web.slack_token, base_url=where, timeout=SECONDS, retry_handlers=[])
    try:
        if file is None:
            client.chat_postMessage(channel=channel, text=message)
        else:
            name, data = file
            client.files_upload_v2(
                channel=channel,
                filename=name,
                title=name,
                content=data,
                initial_comment=message or None,
            )
    except SlackApiError as error:
        word = error.response.get("error") or "no reason given"
        raise Refused(502, "SLACK_FAILED", f"Slack refused: {word}") from None
    except (SlackClientError, OSError):
        raise Refused(502, "SLACK_FAILED", "Slack cannot be reached") from None
