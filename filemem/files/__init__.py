"""The record files in the work tree: the only package that opens, writes or removes them."""

from filemem.files.scan import (
    MAX_SIZE,
    NON_RECORD_NAMES,
    Scan,
    can_exist,
    describe_unread_files,
    is_listed,
    is_record,
    validate_path,
)
from filemem.files.write import Files
from filemem.record.visibility import is_private
