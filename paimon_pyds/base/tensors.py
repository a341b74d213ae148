"""Rows as tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import one_batch, pc, to_numpy
from paimon_pyds.base.options.option import integer
from paimon_pyds.base.row_stream import RowStream, library
from paimon_pyds.errors import OptionError, UnsupportedError

if TYPE_CHECKING:
    import torch


def tensors(rows: RowStream, batch_rows: int | None = None) -> Iterator[dict[str, torch.Tensor]]:
    """See `paimon_pyds.scan.Scan.to_torch`."""
    module = library("torch")
    if batch_rows is not None and integer("batch_rows", batch_rows) < 1:
        raise OptionError(f"batch_rows must be at least 1, it is {batch_rows}")
    for field in rows.arrow_schema:
        if not _is_number(field.type.value_type if _is_list(field.type) else field.type):
            raise UnsupportedError(
                f"column {field.name!r} is of type {field.type}, and tensors hold numbers and booleans",
                hint="leave it out by columns=[…], or convert it with to_batches()",
            )
    batches = rows.to_batches() if batch_rows is None else _of_length(rows.to_batches(), batch_rows)
    return ({n: _tensor(n, batch[n], module) for n in batch.schema.names} for batch in batches)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_))


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_))


def _of_length(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of ``rows`` rows; the last one may be shorter."""
    waiting: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        at = 0
        while batch.num_rows - at >= missing:
            yield one_batch(pa.Table.from_batches([*waiting, batch.slice(at, missing)]))
            at, missing = at + missing, rows
            waiting = []
        if at < batch.num_rows:
            waiting.append(batch.slice(at))
            missing -= batch.num_rows - at
    if waiting:
        yield one_batch(pa.Table.from_batches(waiting))


def _tensor(name: str, values: pa.Array, module: Any) -> Any:
    shape = [len(values)]
    if _is_list(values.type):
        lengths = pc.list_value_length(values).unique()
        if len(lengths) > 1 or values.null_count:
            raise UnsupportedError(
                f"column {name!r} has arrays of several lengths in a batch, or NULL, and a tensor has rows of one",
                hint="filter them out, or convert them with to_batches()",
            )
        shape.append(lengths[0].as_py() if len(lengths) else 0)
        values = values.flatten()
    if values.null_count and not pa.types.is_floating(values.type):
        raise UnsupportedError(
            f"column {name!r} has NULL, which a tensor of {values.type} can't hold",
            hint=f"filter by {name} IS NOT NULL, or fill it in with to_batches()",
        )
    return module.from_numpy(to_numpy(values).copy().reshape(shape))  # a copy, as tensors may be written to
