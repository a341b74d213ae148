"""What goes wrong reads as one clear sentence in a notebook, whatever stands around it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


def failure(action) -> str:
    """The text that a user sees. A classic session refuses in load, Connect with the first look at the frame."""
    with pytest.raises(Exception) as caught:
        frame = action()
        assert frame.schema
    return str(caught.value)


def test_a_missing_table(frames, six, path):
    text = failure(lambda: frames.load(path.replace("/db.db/t", "/db.db/T")))
    assert "TableNotFoundError: no Paimon table is here" in text
    assert "did you mean t?" in text
    warehouse = str(Path(path).parents[1])
    assert "this is a warehouse: name a table in it" in failure(lambda: frames.load(warehouse))


def test_no_frames_of_this_package_above_the_sentence(frames, path):
    text = failure(lambda: frames.load(path))
    assert text.count('File "') < 8
    assert text.index("no Paimon table is here") < text.index("Traceback"), "the sentence comes first"
    assert "metadata/store.py" not in text
    assert "During handling of the above exception" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filter": "colour = 'red'"}, "colour"),
        ({"filter": "id = = 1"}, r"\^"),
        ({"filter": "color = 5 +"}, r"\^"),
        ({"columns": "nope"}, "columns: the table has no column 'nope' — its columns: color, id, size"),
        ({"columns": "colour"}, "the table has no column 'colour' — did you mean color"),
        ({"limit": "-1"}, "limit must be a number of rows, not '-1'"),
        ({"explain": " "}, "explain is log, or the path of a .txt, .html or .json file, not ' '"),
        ({"explain": "/tmp/"}, "explain is log, or the path"),
        ({"limit": "x"}, "limit must be a number of rows, not 'x'"),
        ({"fliter": "id = 1"}, "there is no option fliter — did you mean filter"),
        ({"metadata_columns": "__file"}, "there is no metadata column '__file'"),
        ({"branch": "nope"}, "no branch 'nope'"),
        ({"scan__snapshot_id": 99}, "snapshot 99"),
        ({"scan__tag_name": "nope"}, "no tag 'nope'"),
        ({"scan__snapshot_id": 1, "scan__tag_name": "x"}, "only one of"),
        ({"scan__bucket": 1}, "scan.bucket=1 can't be read"),
        ({"topn": "id"}, "expected a comma, but the top_n ends here"),
        ({"topn": "id, 3 rows"}, "expected the end of the top_n, found rows"),
        ({"topn": "idd, 3"}, "no column 'idd'"),
        (
            {"timezone": "Mars/Olympus", "filter": "id = 1 AND TIMESTAMP'2024-01-01 00:00:00' IS NOT NULL"},
            "Mars/Olympus",
        ),
    ],
)
def test_options_are_refused_when_the_table_is_loaded(frames, six, options, message):
    text = failure(lambda: frames.load(six.path, **options))
    import re

    assert re.search(message, text), text


@pytest.mark.slow
def test_an_explanation_that_cannot_be_written(frames, six, tmp_path):
    (tmp_path / "file").write_text("")
    text = failure(lambda: frames.load(six.path, explain=str(tmp_path / "file" / "why.html")).collect())
    assert "explain: can't " in text and "give the path of a file that can be written where Spark plans" in text


@pytest.mark.slow
def test_parts_of_a_table_by_a_path(frames, six):
    assert "no system table is named 'fils'" in failure(lambda: frames.load(f"{six.path}$fils"))
    assert "has no branch 'b'" in failure(lambda: frames.load(f"{six.path}$branch_b"))


def test_a_schema_and_the_option_columns_that_differ(spark, six):
    reader = spark.read.format("paimon").option("columns", "id").schema("color string")
    assert "columns names id, the schema given color" in failure(lambda: (reader.load(six.path).collect(), None)[1])


@pytest.mark.slow
def test_options_of_streams_are_refused_when_a_batch_is_read(frames, six):
    for options, message in (
        ({"scan__mode": "compacted-full"}, "scan.mode=compacted-full can't be read"),
        ({"rowkind_column": "kind"}, "rowkind-column is for spark.readStream"),
        ({"read__stream__maxRowsPerTrigger": "5"}, "read.stream.maxrowspertrigger is for spark.readStream"),
    ):
        assert message in failure(lambda options=options: (frames.load(six.path, **options).collect(), None)[1])


@pytest.mark.slow
def test_a_table_with_a_primary_key(frames, path):
    schema = pa.schema([pa.field("id", pa.int32(), False), ("v", pa.string())])
    pp.Table.create(path, schema, primary_key=["id"], options={"bucket": "1"})
    assert frames.load(path).count() == 0
    assert "no row kind" in failure(lambda: frames.save("SELECT 1 AS id, '+x' AS op", path, **{"rowkind-column": "op"}))
    assert "column id is NOT NULL" in failure(lambda: frames.save("SELECT INT(NULL) AS id, 'a' AS v", path))
    place = "SELECT 'x' AS __paimon_file_path, 0L AS __paimon_row_index"
    assert "for tables without a primary key" in failure(lambda: frames.save(place, path, operation="delete"))
    assert not pp.Table.open(path).snapshots.list()


@pytest.mark.slow
def test_corrupt_metadata(frames, six):
    snapshot = Path(six.path) / "snapshot" / "snapshot-2"
    whole = snapshot.read_text()
    snapshot.write_text(whole[: len(whole) // 2])
    text = failure(lambda: frames.load(six.path))
    assert "CorruptFileError" in text
    assert "snapshot-2" in text
    changed = json.loads(whole)
    changed["deltaManifestList"] = "manifest-list-gone"
    snapshot.write_text(json.dumps(changed))
    assert "a file of the table is gone" in failure(lambda: frames.load(six.path).count())


def test_a_data_file_that_is_gone_or_damaged(frames, six):
    file = Path(six.scan().plan().paths[0])
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    text = failure(lambda: frames.load(six.path).collect())
    assert "CorruptFileError" in text
    assert file.name in text
    file.unlink()
    text = failure(lambda: frames.load(six.path).collect())
    assert file.name in text
    assert "paimon_pyds.errors" in text


def test_secrets_stay_secret(frames, six):
    text = failure(
        lambda: frames.load("s3://nobody:hunter2@bucket/t", **{"s3.secret-key": "canary-7531", "limit": "x"})
    )
    assert "canary-7531" not in text
    assert "hunter2" not in text
    text = failure(lambda: frames.load(six.path, **{"s3.secret-key": "canary-7531", "filter": "nope = 1"}))
    assert "canary-7531" not in text


def test_save_modes_that_spark_refuses_name_the_others(frames, six):
    assert "Append" in failure(lambda: frames.save("SELECT 1 AS id", six.path, mode="ignore"))
