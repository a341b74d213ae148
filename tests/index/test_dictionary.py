"""The distinct keys of a column: the same whether keys repeat often, seldom, or never."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_pyds.base.types import parse_type
from paimon_pyds.index.dictionary import ColumnDictionary
from paimon_pyds.index.keys import key_codec

ROWS = 40_000


@pytest.mark.parametrize("distinct", [3, 5_000, 2 * ROWS, 1 << 40])
@pytest.mark.parametrize("nulls", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("batch", [ROWS, 17_000])
def test_codes_are_ranks(distinct: int, nulls: float, batch: int) -> None:
    rng = np.random.default_rng(distinct)
    values, mask = rng.integers(-distinct, distinct, ROWS), rng.random(ROWS) < nulls
    values[-1] = values[0]
    dictionary = ColumnDictionary(key_codec(parse_type("BIGINT")))
    for start in range(0, ROWS, batch):
        dictionary.update(pa.array(values[start : start + batch], mask=mask[start : start + batch]))
        dictionary.flush()
    encoded = dictionary.finish()
    keys, codes = np.unique(values[~mask], return_inverse=True)
    expected = np.full(ROWS, -1)
    expected[~mask] = codes
    assert encoded.int_keys().tolist() == keys.tolist()
    assert encoded.codes.tolist() == expected.tolist()


@pytest.mark.parametrize("keep_codes", [True, False])
@pytest.mark.parametrize("distinct", [3, 5_000, 1 << 40])
@pytest.mark.parametrize("nulls", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("type_", ["BIGINT", "STRING"])
@pytest.mark.parametrize("batch", [3 * ROWS, 17_000])
def test_listeners_are_told_every_key(keep_codes: bool, distinct: int, nulls: float, type_: str, batch: int) -> None:
    rng = np.random.default_rng(distinct)
    numbers = pa.array(rng.integers(0, distinct, 3 * ROWS), mask=rng.random(3 * ROWS) < nulls)
    codec = key_codec(parse_type(type_))
    values = numbers if type_ == "BIGINT" else numbers.cast(pa.string())
    dictionary = ColumnDictionary(codec, keep_codes=keep_codes)
    told: list[pa.Array] = []
    dictionary.on_distinct(told.append)
    for start in range(0, len(values), batch):
        dictionary.update(values[start : start + batch])
    dictionary.flush()
    assert not any(keys.null_count for keys in told)
    assert {key for keys in told for key in keys.to_pylist()} == set(codec.keys_of(values).drop_null().to_pylist())
