"""A column of every type that Spark and Paimon share, with values as SQL."""

from __future__ import annotations

COLUMNS = {
    # name: (Paimon type, values as SQL)
    "yes": ("BOOLEAN", ["true", "false"]),
    "tiny": ("TINYINT", ["-128Y", "127Y"]),
    "small": ("SMALLINT", ["-32768S", "32767S"]),
    "int": ("INT", ["int('-2147483648')", "2147483647"]),
    "big": ("BIGINT", ["bigint('-9223372036854775808')", "9223372036854775807L"]),
    "real": ("FLOAT", ["float('NaN')", "float('-0.0')", "1.1F"]),
    "double": ("DOUBLE", ["double('-Infinity')", "double('NaN')", "1.1D"]),
    "dec": ("DECIMAL(10, 2)", ["-12345678.90BD", "cast(0 AS DECIMAL(10, 2))"]),
    "wide": ("DECIMAL(38, 10)", ["cast('9999999999999999999999999999.9999999999' AS DECIMAL(38, 10))"]),
    "text": ("STRING", ["''", "'äß€🎈'", "'a\\0b'"]),
    "raw": ("BYTES", ["X''", "X'00FF'"]),
    "day": ("DATE", ["DATE'0001-01-01'", "DATE'1969-12-31'", "DATE'9999-12-31'"]),
    "at": ("TIMESTAMP(6)", ["TIMESTAMP_NTZ'1900-01-01 00:00:00.000001'", "TIMESTAMP_NTZ'2262-12-31 23:59:59.999999'"]),
    "utc": (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        ["TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2024-03-31 01:30:00+01:00'"],
    ),
    "list": ("ARRAY<INT>", ["array(1, NULL, 3)", "cast(array() AS array<int>)"]),
    "map": ("MAP<STRING NOT NULL, DOUBLE>", ["map('a', 1.5D, 'b', NULL)", "cast(map() AS map<string, double>)"]),
    "row": (
        "ROW<a INT, b ROW<c STRING, d ARRAY<DATE>>>",
        [
            "named_struct('a', 1, 'b', named_struct('c', nullif('x', ''), 'd', if(rand() < 2,"
            " array(DATE'2024-01-01', NULL), NULL)))",
            "named_struct('a', NULL, 'b', NULL)",
        ],
    ),
    "deep": (
        "ARRAY<MAP<BIGINT NOT NULL, ROW<t TIMESTAMP(6) NOT NULL> NOT NULL>>",
        ["array(map(1L, named_struct('t', TIMESTAMP_NTZ'1969-12-31 23:59:59.5')), NULL)"],
    ),
}  # fmt: skip


def query(columns) -> str:
    """Rows of all values, the shorter lists repeated, and a row of NULLs; all columns nullable."""
    count = max(len(values) for _, values in columns.values())
    rows = []
    for i in range(count):
        cells = [f"{v[i % len(v)]} AS `{name}`" for name, (_, v) in columns.items()]
        rows.append(f"SELECT {i} AS id, {', '.join(cells)}")
    nulls = ", ".join(f"NULL AS `{name}`" for name in columns)
    return " UNION ALL ".join([*rows, f"SELECT {count} AS id, {nulls}"])
