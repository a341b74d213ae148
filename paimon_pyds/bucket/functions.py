"""The functions of the option ``bucket-function.type``: default, mod, hive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.row import hash_rows
from paimon_pyds.types import DataType, Kind

__all__ = ["bucket_of"]


def bucket_of(
    columns: Sequence[pa.Array], types: Sequence[DataType], num_buckets: int, function: str = "default"
) -> npt.NDArray[np.int32]:
    """The bucket of every row.

    Args:
        columns: the bucket key, column by column, in the order of the bucket key.
        types: its Paimon types.
        num_buckets: how many buckets a partition has, 1 or more.
        function: ``default`` (the remainder of the row's hash), ``mod`` (the remainder of one INT or BIGINT key, which
            is never negative; NULL goes to bucket 0) or ``hive`` (as Hive's bucketed tables).

    Returns:
        int32 numbers in 0 … num_buckets-1.

    Raises:
        OptionError: no such function, or a number of buckets below 1.
        SchemaError: key columns that the function is not made for.
        UnsupportedError: a key of a nested type; for ``hive`` also of a timestamp type.
    """
    if num_buckets < 1:
        raise OptionError(f"a partition can't have {num_buckets} buckets", hint="set 'bucket' to 1 or more")
    match function.lower():
        case "default":
            # Java's % cuts towards zero, so the absolute value of the remainder is that of |hash| % n.
            wide = hash_rows(columns, types).astype(np.int64)
            return (np.abs(wide) % num_buckets).astype(np.int32)
        case "mod":
            return _mod(columns, types, num_buckets)
        case "hive":
            from paimon_pyds.bucket.hive import hive_hash

            return ((hive_hash(columns, types) & np.uint32(0x7FFFFFFF)) % np.uint32(num_buckets)).astype(np.int32)
    raise OptionError(f"unknown bucket function {function!r}", hint="use default, mod or hive")


def _mod(columns: Sequence[pa.Array], types: Sequence[DataType], num_buckets: int) -> npt.NDArray[np.int32]:
    if len(types) != 1 or types[0].kind not in (Kind.INT, Kind.BIGINT):
        raise SchemaError(
            f"bucket function mod needs one bucket key of type INT or BIGINT, not {[str(t) for t in types]}",
            hint="use bucket-function.type=default",
        )
    keys = columns[0]
    if keys.null_count:
        keys = keys.fill_null(0)
    numbers = np.asarray(keys.to_numpy(zero_copy_only=False), np.int64)
    return np.asarray(np.mod(numbers, num_buckets), np.int32)
