"""Send a message or a file to a Slack channel, with the bot that the user has configured.

Only this module uses slack_sdk.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from filemem import secrets
from filemem.errors import BadInput
from filemem.web.code import read_file
from filemem.web.route import Answer, Arguments, Context, RouteFailure, format_install_hint

if TYPE_CHECKING:
    from filemem.config import WebSettings
    from filemem.memory import Memory

TIMEOUT = 20  # seconds of each request to Slack
MAX_FILE = 10 << 20  # bytes of a file
MAX_TEXT = 40_000  # characters of a message that Slack accepts


class _Attachment(NamedTuple):
    """A file to upload."""

    name: str
    data: bytes


async def send_message(context: Context, arguments: Arguments) -> Answer:
    """Send a message, a file, or both. Raises RouteFailure, or BadInput for what looks secret."""
    channel = arguments["channel_id"].strip()
    message = arguments.get("message", "")
    file_path = arguments.get("file_path", "")
    if not message.strip() and not file_path:
        raise RouteFailure(400, "MISSING_FIELDS", "Missing required field: message or file_path")
    if not context.web.slack_token:
        hint = "set SLACK_BOT_TOKEN, the token of a Slack bot"
        raise RouteFailure(503, "NOT_CONFIGURED", "Slack is not configured", hint)
    _refuse_secret("message", message)
    attachment: _Attachment | None = None
    if file_path:
        reading = context.ask(lambda memory: _read_attachment(memory, file_path))
        attachment = await asyncio.wrap_future(reading)
    await asyncio.to_thread(_post_message, context.web, channel, message, attachment)
    return {"success": True, "message": f"Message sent to Slack channel {channel}"}


def _read_attachment(memory: Memory, file_path: str) -> _Attachment:
    path, data = read_file(memory, file_path, MAX_FILE)
    _refuse_secret("file_path", data.decode("utf-8", "replace"))
    name = path.rpartition("/")[2]
    return _Attachment(name, data)


def _refuse_secret(field: str, text: str) -> None:
    """Raise BadInput for what looks like a secret: a channel has many readers, and a log."""
    leaks = secrets.find_secrets(text)
    if not leaks:
        return
    finding = f"line {leaks[0].line} looks like a secret ({leaks[0].kind})"
    hint = "remove it, and change it if it was real"
    raise BadInput(f"{field}: {finding}; nothing was sent", hint, field=field)


def _post_message(
    web: WebSettings, channel: str, message: str, attachment: _Attachment | None
) -> None:
    """Send to Slack. A failure quotes only Slack's error code."""
    try:
        from slack_sdk import WebClient  # noqa: PLC0415  an optional package, slow to import
        from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415
    except ImportError:
        raise RouteFailure(
            503, "NOT_INSTALLED", "slack_sdk is not installed", format_install_hint("slack")
        ) from None
    base_url = web.slack_url or WebClient.BASE_URL
    client = WebClient(token=web.slack_token, base_url=base_url, timeout=TIMEOUT, retry_handlers=[])
    try:
        if attachment is None:
            client.chat_postMessage(channel=channel, text=message)
        else:
            client.files_upload_v2(
                channel=channel,
                filename=attachment.name,
                title=attachment.name,
                content=attachment.data,
                initial_comment=message or None,
            )
    except SlackApiError as error:
        reason = error.response.get("error") or "no reason given"
        raise RouteFailure(502, "SLACK_FAILED", f"Slack refused: {reason}") from None
    except (SlackClientError, OSError):
        raise RouteFailure(502, "SLACK_FAILED", "Slack cannot be reached") from None
