"""Every table option of Paimon: type, default, and whether it is honoured, ignorable or refused."""

from __future__ import annotations

from paimon_pyds.base.options.option import Kind, Option, Scope, Status, parse_duration_ms, parse_memory, parse_value
from paimon_pyds.base.options.table_options import (
    BLOB_OPTIONS,
    DIRECTORY_OPTIONS,
    IMMUTABLE_OPTIONS,
    OPTIONS,
    TableOptions,
    blob_is_written,
    blob_options,
    check_appendable,
    check_branch,
    check_known,
    check_no_secrets,
    check_readable,
    check_shape,
    check_whole_rows,
    check_without_key,
    check_writable,
    holds_descriptors,
    holds_views,
    is_apart_blob,
    option_of,
    stored_options,
)

__all__ = [
    "DIRECTORY_OPTIONS", "IMMUTABLE_OPTIONS", "OPTIONS", "Kind", "Option", "Scope", "Status", "TableOptions",
    "BLOB_OPTIONS", "blob_is_written", "blob_options", "check_appendable", "check_branch", "check_known",
    "check_no_secrets", "check_readable", "check_shape", "check_whole_rows", "check_without_key", "check_writable",
    "holds_descriptors", "holds_views", "is_apart_blob", "option_of", "parse_duration_ms",
    "parse_memory", "parse_value",
    "stored_options",
]  # fmt: skip
