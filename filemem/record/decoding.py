"""From the bytes of a file to its text, whatever they are. What cannot be read is shown as U+FFFD, and said.

Line numbers stay those of the file: of a merge that was not finished the first side is read, and blank lines stand for
the rest.
"""

from filemem.record.header import Note
from filemem.record.lines import conflicts, way_out

MAX_FILE = 1024 * 1024  # bytes
CONFLICT = "conflict"  # the code of a merge that was not finished

_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


def is_wide(data: bytes) -> bool:
    """Tell whether a file is UTF-16 by its mark or, where it has none, by every other byte being NUL."""
    return data.startswith(_WIDE_MARKS) or (b"\0" in data and data.count(0) * 3 > len(data))


def decode(data: bytes, notes: list[Note]) -> str:
    """Return the text of a file, its lines ending in a line feed; what is wrong with it is added to `notes`."""
    return _resolve_conflicts(_decoded(data, notes), notes)


def _decoded(data: bytes, notes: list[Note]) -> str:
    try:
        text = data.decode("utf-16" if data.startswith(_WIDE_MARKS) else "utf-8")
        if is_wide(data):
            notes.append(Note(1, "encoding", "error", "UTF-16, not UTF-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        notes.append(Note(line, "encoding", "error", "not UTF-8; unreadable bytes are shown as \ufffd"))
        text = data.decode(errors="replace")
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        notes.append(Note(line, "control-character", "warning", "a NUL character; shown as \ufffd"))
        text = text.replace("\0", "\ufffd")
    return text


def _resolve_conflicts(text: str, notes: list[Note]) -> str:
    """Read the first side of unresolved merges; line numbers stay what they are."""
    if "<<<<<<<" not in text:
        return text
    lines = text.split("\n")
    for start, middle, end in conflicts(lines):
        how = way_out(lines, (start, middle, end))
        message = f"an unresolved merge conflict, up to line {end + 1}; the first side is read; {how}"
        notes.append(Note(start + 1, CONFLICT, "error", message))
        lines[start] = ""
        lines[middle : end + 1] = [""] * (end + 1 - middle)
    return "\n".join(lines)
