"""Row kinds of rows that are written: as texts, and those that options leave out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import SchemaError
from paimon_pyds.keys.merge.row_kinds import ROW_KINDS, accepted_rows, parse_row_kinds
from support.engine_model import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


def test_row_kinds_are_read_from_texts_in_either_case() -> None:
    found = parse_row_kinds(pa.array(["-D", "+i", "+U", "-u"]), "op")
    assert found.type == pa.int8()
    assert found.to_pylist() == [DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE]
    assert parse_row_kinds(pa.array(ROW_KINDS), "op").to_pylist() == [0, 1, 2, 3]
    assert parse_row_kinds(pa.array([], pa.string()), "op").to_pylist() == []


@pytest.mark.parametrize(("text", "message"), [(None, "can't be NULL"), ("", "''"), (" +I", "' \\+I'"), ("U", "'U'")])
def test_other_texts_are_refused(text: str | None, message: str) -> None:
    with pytest.raises(SchemaError, match=f"column op: .*{message}"):
        parse_row_kinds(pa.array(["+I", text]), "op")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, None),
        ({"ignore-delete": "false", "ignore-update-before": "false"}, None),
        ({"ignore-delete": "true"}, [True, False, True, False]),
        ({"partial-update.ignore-delete": "true"}, [True, False, True, False]),
        ({"ignore-update-before": "true"}, [True, False, True, True]),
        ({"ignore-update-before": "true", "first-row.ignore-delete": "true"}, [True, False, True, False]),
    ],
)
def test_options_leave_rows_out(options: dict[str, str], kept: list[bool] | None) -> None:
    found = accepted_rows(pa.array([0, 1, 2, 3], pa.int8()), TableOptions(options))
    assert (None if found is None else found.tolist()) == kept
