"""Rows that come as batches, and what users take them as: Arrow, pandas, polars, DuckDB.

A library is imported only when it is used; Arrow's C stream interface does most of the work.
(Source: Arrow documentation, "The Arrow PyCapsule Interface".)
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from paimon_pyds.base.progress import shown
from paimon_pyds.errors import ArgumentTypeError, UnsupportedError

if TYPE_CHECKING:
    import duckdb
    import pandas  # noqa: TID251
    import polars


def public_names(owner: object, internal: Collection[str] = ()) -> list[str]:
    """What ``dir`` and completion list of an object: what users call. ``internal``: what only this package calls."""
    listed = object.__dir__(owner)
    return sorted(n for n in listed if n not in internal and (not n.startswith("_") or n.startswith("__")))


class RowStream:
    """Rows that come as batches of one schema: what else they can be taken as."""

    _INTERNAL: ClassVar[frozenset[str]] = frozenset()

    def __dir__(self) -> list[str]:
        return public_names(self, self._INTERNAL)

    if not TYPE_CHECKING:  # checkers know what there is

        def __getitem__(self, item: object) -> Any:
            """Brackets, as other libraries have them, raise an error that names the method to use here."""
            hint = f"columns are named as in table.scan(columns={item if isinstance(item, list) else str(item)!r})"
            if isinstance(item, int | slice):
                hint = "table.head(n) gives the first rows"
            raise ArgumentTypeError(f"a {type(self).__name__} takes no [{item!r:.40}]", hint=hint)

        def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
            """Without it pandas would take the batches for values: a frame of one column of objects. In arrays and
            frames of objects it is one of them."""
            if dtype is not None and np.dtype(cast("Any", dtype)) == np.dtype(object):
                one = np.empty((), object)
                one[()] = self
                return one
            raise ArgumentTypeError(
                f"an array, and pandas.DataFrame(…), can't be made of a {type(self).__name__} itself",
                hint="write to_pandas(), or to_arrow(); for arrays to_arrow()[column].to_numpy()",
            )

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches."""
        raise NotImplementedError

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in bounded memory."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """All rows as one table in memory."""
        with shown("read"):
            return pa.Table.from_batches(self._batches_to_hold(), schema=self.arrow_schema)

    def _batches_to_hold(self) -> Iterator[pa.RecordBatch]:
        """The rows for a caller that holds them all: batches may be larger."""
        return self.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, in bounded memory."""
        return self.to_batches()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream for any library that reads Arrow's, as in ``polars.DataFrame(scan)``."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a pandas DataFrame.

        pandas makes floats of integers where a value is NULL, unless ``types_mapper=pandas.ArrowDtype`` is given;
        `Table.append` takes them back where they are below 2^53.

        Args:
            **options: as for ``to_pandas`` of a pyarrow Table.

        Returns:
            The frame.

        Raises:
            UnsupportedError: pandas is not installed.
        """
        library("pandas")
        return self.to_arrow().to_pandas(**options)

    def scan_polars(self) -> polars.LazyFrame:
        """The rows as a lazy frame of polars: only the columns, files and pages are read that its query needs.

        A condition of polars that compares columns with constants is answered by statistics and indexes first.

        Raises:
            UnsupportedError: polars is not installed.
        """
        library("polars")
        from paimon_pyds.base.lazy_polars import lazy_frame

        return lazy_frame(self)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a polars DataFrame.

        Returns:
            The frame.

        Raises:
            UnsupportedError: polars is not installed.
        """
        frame: polars.DataFrame = library("polars").from_arrow(self.to_arrow())
        return frame

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, which reads them for each query, in bounded memory.

        Only the columns, files and pages are read that a query needs: conditions that compare columns with constants
        are answered by statistics and indexes first.

        Args:
            connection: a connection of DuckDB; its default one when None.

        Returns:
            The relation.

        Raises:
            UnsupportedError: duckdb is not installed.
            ArgumentTypeError: ``connection`` is something else, such as the path of a database.
        """
        given: Any = library("duckdb") if connection is None else connection
        if not hasattr(given, "from_arrow"):
            raise ArgumentTypeError(
                f"connection takes a connection of DuckDB, not {given!r:.100} ({type(given).__name__})",
                hint="such as duckdb.connect('my.db')",
            )
        from paimon_pyds.base.lazy_duckdb import dataset

        relation: duckdb.DuckDBPyRelation = given.from_arrow(dataset(self))
        return relation


def library(name: str) -> Any:
    """A library that need not be installed. Raises UnsupportedError where it is not."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name not in (package, name):
            raise
        extra = "'ray[data]'" if name == "ray.data" else package
        raise UnsupportedError(f"{package} is not installed", hint=f"pip install {extra}, or take to_arrow()") from None
