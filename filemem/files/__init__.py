"""The record files in the work tree: the only package that opens, writes or removes them."""

from filemem.files.scan import (
    MAX_SIZE,
    NO_RECORDS,
    Scan,
    check_path,
    fits,
    is_listed,
    is_record,
    not_read,
)
from filemem.files.write import Files
from filemem.record.visibility import is_private
