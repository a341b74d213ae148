"""Kinds of rows that are written to a table with a primary key, and which rows its options leave out.

Source: Paimon documentation, primary-key-table/table-mode and "rowkind.field" of its options; Java: classes
RowKindGenerator and RowKindFilter.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.keys.merge.grouped_rows import Flags
from paimon_pyds.keys.merge.key_values import DELETE, UPDATE_BEFORE, is_retract

ROW_KINDS = ("+I", "-U", "+U", "-D")
"""Row kinds as texts, in the order of their numbers."""


def parse_row_kinds(texts: pa.Array, column: str) -> pa.Array:
    """The numbers (int8, as in ``_VALUE_KIND``) of row kinds: ``+I``, ``-U``, ``+U``, ``-D``, in either case.
    Raises SchemaError: NULL, or a text that is no row kind."""
    if texts.null_count:
        raise SchemaError(f"column {column}: a row kind can't be NULL", hint=f"give one of {', '.join(ROW_KINDS)}")
    kinds = pc.index_in(pc.utf8_upper(texts), array(ROW_KINDS))
    if kinds.null_count:
        wrong = texts.filter(kinds.is_null())[0].as_py()
        raise SchemaError(f"column {column}: {wrong!r:.100} is no row kind", hint=f"give one of {', '.join(ROW_KINDS)}")
    return kinds.cast(pa.int8())


def accepted_rows(kinds: pa.Array, options: TableOptions) -> Flags | None:
    """Which rows a writer takes: all (None), or not those that the options ``ignore-delete`` (-U and -D) or
    ``ignore-update-before`` (-U) leave out."""
    left_out = {UPDATE_BEFORE} if options.get("ignore-update-before") else set()
    if options.get("ignore-delete"):
        left_out = {UPDATE_BEFORE, DELETE}
    if not left_out:
        return None
    return ~np.isin(to_numpy(kinds), sorted(left_out))


def check_deletes(kinds: pa.Array, options: TableOptions) -> None:
    """Raises UnsupportedError for deletes (-U and -D) that the merge engine could not merge with other versions: with
    them in the table, reads and compactions would fail. Java writes those that are alone of their key."""
    engine = options.get("merge-engine")
    if engine == "first-row":
        ways = "ignore-delete=true leaves them out"
    elif engine == "partial-update" and not (
        options.get("partial-update.remove-record-on-delete")
        or any(key.startswith("fields.") and key.endswith(".sequence-group") for key in options)
    ):
        ways = "ignore-delete=true leaves them out, partial-update.remove-record-on-delete=true deletes rows"
    else:
        return
    if is_retract(kinds).any():
        raise UnsupportedError(f"the merge engine {engine} takes no deletes (-U, -D)", hint=f"alter the table: {ways}")
