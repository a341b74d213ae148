"""A canary secret given to Spark: in no message, in no task that does not need it, in no file."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import IntegerType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds import spark as paimon
from paimon_pyds.errors import PaimonError
from paimon_pyds.spark.options import parse_read_options, parse_write_options
from paimon_pyds.spark.source import PaimonDataSource
from support.canary import CANARY, STORAGE_OPTIONS, bytes_of_files, failure, is_clean, texts_of, trace_of

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]

ADDRESSES = (
    f"s3://key:{CANARY}@bucket/t", f"s3://bucket/t?X-Amz-Signature={CANARY}", f"https://host/t?sig={CANARY}",
)  # fmt: skip


def test_options_and_tasks(six, caplog):
    schema = StructType([StructField("id", IntegerType())])
    for options in (parse_read_options({"path": ADDRESSES[0], **STORAGE_OPTIONS}),
                    parse_write_options({"path": ADDRESSES[0], **STORAGE_OPTIONS}, overwrite=False)):  # fmt: skip
        assert is_clean(texts_of(options)) and options.storage == STORAGE_OPTIONS
    given = {"path": six.path, **STORAGE_OPTIONS}
    whole = PaimonDataSource(given).schema()
    tasks = [
        PaimonDataSource(given).writer(whole, True),
        PaimonDataSource({**given, "operation": "delete"}).writer(schema, False),
        PaimonDataSource({**given, "operation": "upsert", "operation-keys": "id"}).writer(whole, False),
        *PaimonDataSource(given).reader(whole).partitions(),
    ]
    for task in tasks:
        assert is_clean(pickle.dumps(task)) and is_clean(texts_of(task))
    with caplog.at_level(logging.DEBUG, "paimon_pyds.spark"):
        for address in ADDRESSES:
            source = PaimonDataSource({**given, "path": address})
            for call in (source.schema, lambda source=source: source.writer(whole, False)):
                error = failure(call)
                assert isinstance(error, PaimonError) and is_clean(trace_of(error))
    assert "Traceback" in caplog.text and is_clean(caplog.text)


def test_a_session(frames, path):
    frames.save("SELECT 1 AS id, 'red' AS color", path, **STORAGE_OPTIONS)
    assert frames.ids(frames.load(path, filter="id < 9", **STORAGE_OPTIONS)) == [1]
    assert is_clean(bytes_of_files(path)) and pp.Table.open(path).options == {}
    new = f"{path}2"
    calls = [
        lambda: frames.load(path, filter="nope = 1", **STORAGE_OPTIONS).schema,
        lambda: frames.save("SELECT 'x' AS other", path, **STORAGE_OPTIONS),
        lambda: frames.save("SELECT 1 AS id", new, **{"commit.callback.x.token": CANARY}),
        lambda: paimon.delete(frames.spark, ADDRESSES[1], "id = 1", storage_options=STORAGE_OPTIONS),
    ]
    for call in calls:
        assert is_clean(str(failure(call)))
    assert not Path(new, "schema").exists()


def test_a_task_that_fails(frames, path):
    frames.save("SELECT 1 AS id, 'red' AS color", path)
    (file,) = Path(path).rglob("*.parquet")
    frame = frames.load(path, **STORAGE_OPTIONS)
    assert frame.schema
    file.write_bytes(b"PAR1" + b"\x1b[2J" * file.stat().st_size)
    text = str(failure(frame.collect))
    assert "CorruptFileError" in text and is_clean(text)
