"""The data source ``paimon``: a façade that parses options and hands over.

Spark starts a Python process to plan each query and imports this module there, so nothing heavy is imported until a
method needs it: no pyarrow, no pandas.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from pyspark.sql.datasource import DataSource

from paimon_pyds.errors import ArgumentTypeError, OptionError
from paimon_pyds.spark import compat
from paimon_pyds.spark.clear_errors import clear_errors, lacks_package

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType

    from paimon_pyds.spark.options import ReadOptions
    from paimon_pyds.spark.state import Loaded
    from paimon_pyds.spark.stream_writer import PaimonStreamWriter

_NEEDED = ("paimon_pyds", "numpy", "pyarrow", "pyroaring", "xxhash")
"""The packages that workers need."""
_LEAK_WARNING = (
    "pushdown is on, and Spark before version 5 applies the filters of one query to the other queries of the same "
    "DataFrame or view, with silently wrong rows (SPARK-58551): load anew for each query, or use option('where', …)"
)
_log = logging.getLogger("paimon_pyds.spark")
_WITH_PUSHDOWN: WeakSet[Any] = WeakSet()
"""Sessions whose formats were registered with pushdown."""


class PaimonDataSource(DataSource):  # type: ignore[misc]
    """Paimon tables as ``spark.read.format("paimon")`` and ``df.write.format("paimon")``.

    The columns are those of the load. The rows are those of the newest snapshot when Spark plans a query, unless the
    options name a state; see `paimon_pyds.spark.refresh` for Spark 4.1 to 4.3, which plan a DataFrame or view once.
    """

    pushdown: ClassVar[bool] = False
    """Whether Spark's filters are taken when the option ``pushdown`` does not say."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self._loaded: Loaded | None = None

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return "paimon"

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a source right after it was made, even when ``schema`` was not called: that is the load."""
        if self._loaded is None:
            from paimon_pyds.spark.state import try_load

            self._loaded = try_load(self.options)
        return self.__dict__

    @clear_errors
    def schema(self) -> StructType:
        """The columns as Spark's types. Options that do not fit the table are refused here, not in the first query."""
        from paimon_pyds.spark.state import load_state, state_schema

        options = self._read_options()
        if options.system is not None:
            from paimon_pyds.spark.system import system_schema

            return system_schema(options)
        state = load_state(options, self._loaded)
        self._loaded = state.loaded
        return state_schema(state, options)

    @clear_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of these columns; a user's ``.schema(…)`` arrives here as a projection by name."""
        from paimon_pyds.spark import reader

        options = self._read_options()
        if options.kind_column is not None or options.stream:
            raise OptionError(
                f"{next(iter(options.stream), 'rowkind-column')} is for spark.readStream",
                hint="leave it out of spark.read, which gives the newest version of each row",
            )
        if options.system is not None:
            from paimon_pyds.spark.system import SystemReader

            return SystemReader(schema, options)
        if options.pushdown and compat.SUPPORTS_PUSHDOWN:
            # Spark plans again for each filter, and nothing else is right with pushdown on.
            _warn_of_leak()
            return reader.PaimonPushdownReader(schema, options, self._loaded)
        if compat.plans_once() and not options.travels:
            from paimon_pyds.spark.refresh import RefreshingReader

            return RefreshingReader(schema, options, self._loaded)
        return reader.PaimonReader(schema, options, self._loaded)

    @clear_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of rows with these columns, which makes the table when it is missing.

        With the option ``operation`` one that deletes rows, or puts new versions in their place.
        """
        from paimon_pyds.spark.options import parse_write_options

        options = parse_write_options(self.options, overwrite=overwrite)
        if options.operation is not None:
            from paimon_pyds.spark.row_writer import open_row_writer

            return open_row_writer(schema, options)
        from paimon_pyds.spark.writer import open_writer

        return open_writer(schema, options, overwrite=overwrite)

    @clear_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of the changes after a start, and first of the rows at the start if the options say so."""
        from paimon_pyds.spark.stream_reader import open_stream_reader

        return open_stream_reader(schema, self._read_options(), self._loaded)

    @clear_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> PaimonStreamWriter:
        """A writer of micro-batches, each of which is committed once; see `paimon_pyds.spark.stream_writer`."""
        from paimon_pyds.spark.stream_writer import open_stream_writer

        return open_stream_writer(schema, self.options, overwrite=overwrite)

    def _read_options(self) -> ReadOptions:
        from paimon_pyds.spark.options import parse_read_options

        return parse_read_options(self.options, pushdown=self.pushdown)


class PaimonPydsDataSource(PaimonDataSource):
    """The same under a second name, for sessions where Paimon's jar holds ``paimon``."""

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return "paimon_pyds"


class PaimonPushdownDataSource(PaimonDataSource):
    """``paimon`` as ``register(spark, pushdown=True)`` makes it."""

    pushdown = True


class PaimonPydsPushdownDataSource(PaimonPydsDataSource):
    """``paimon_pyds`` as ``register(spark, pushdown=True)`` makes it."""

    pushdown = True


def register(spark: Any, pushdown: bool = False) -> None:
    """Make the formats ``paimon`` and ``paimon_pyds`` known to a session, where they are not.

    Where Paimon's jar holds the name ``paimon``, only the second is.

    Args:
        spark: a session, classic or Connect.
        pushdown: let Spark hand its filters to the source, without the option ``pushdown`` on each read. Spark before
            version 5 mixes the filters of several queries on one DataFrame up and gives silently wrong rows: a warning
            says so. The option ``filter`` is safe everywhere.
    """
    if not hasattr(spark, "dataSource"):
        raise ArgumentTypeError(f"register takes a SparkSession, not {spark!r:.100}", hint="pip install 'pyspark>=4.0'")
    first: type[DataSource] = PaimonDataSource
    second: type[DataSource] = PaimonPydsDataSource
    if pushdown:
        if compat.SUPPORTS_PUSHDOWN:
            first, second = PaimonPushdownDataSource, PaimonPydsPushdownDataSource
            spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")  # else Spark refuses such readers
            if compat.plans_once():
                warnings.warn(_LEAK_WARNING, RuntimeWarning, stacklevel=2)
                _log.warning(_LEAK_WARNING)
        else:
            warnings.warn("this Spark hands no filters to Python data sources (4.1 does); use option('where', …)")
    _check_workers(spark)
    if not pushdown and spark not in _WITH_PUSHDOWN and _has_formats(spark):
        return  # Spark logs a warning for each source that replaces another
    (_WITH_PUSHDOWN.add if pushdown else _WITH_PUSHDOWN.discard)(spark)
    second_is_taken = _name_is_taken(spark, _whole(second))
    if _name_is_taken(spark, _whole(first)) and not second_is_taken:
        _log.warning("the format 'paimon' belongs to a jar of this session; use format('paimon_pyds')")


def _check_workers(spark: Any) -> None:
    """Warn where the session's workers run on this machine, by an interpreter that lacks this package: else the first
    query says so, behind a trace."""
    interpreter = compat.local_interpreter(spark)
    if interpreter is None or shutil.which(interpreter) in (None, sys.executable):
        return
    code = f"import importlib.util as u; print(*[p for p in {_NEEDED!r} if u.find_spec(p) is None])"
    try:
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):  # the first query will raise it
        return
    if done.returncode == 0 and done.stdout.strip():
        warnings.warn(lacks_package(interpreter, done.stdout.split()[0]), RuntimeWarning, stacklevel=3)


def _has_formats(spark: Any) -> bool:
    """Whether a session has both formats: found on the path, or registered before. A jar's source fails here, as it
    takes no table without a path."""
    try:
        for source in (PaimonDataSource, PaimonPydsDataSource):
            spark.read.format(source.name()).schema("a INT").load().columns  # noqa: B018 - Connect looks only then
    except Exception:  # noqa: BLE001 - the classes of its errors differ between sessions
        return False
    return True


def _whole(source: type[DataSource]) -> type[DataSource]:
    """The class that Spark gets for a source. It is pickled by value, as those of a script are, and imports the source
    where it is used: an interpreter that lacks this package, or what that needs, can say so."""
    short_name, class_name, text = source.name(), source.__name__, lacks_package("{worker}", "{package}")
    packages = _NEEDED

    def name(cls: type[DataSource]) -> str:
        return short_name  # type: ignore[no-any-return]

    def new(cls: type[DataSource], options: Mapping[str, str]) -> DataSource:
        import importlib.util
        import sys

        for package in packages:
            try:
                is_there = importlib.util.find_spec(package) is not None
            except ImportError:
                is_there = False
            if not is_there:
                raise RuntimeError(text.format(worker=sys.executable, package=package))
        return getattr(importlib.import_module("paimon_pyds.spark.source"), class_name)(options)

    name.__module__ = new.__module__ = "__main__"
    members = {"name": classmethod(name), "__new__": new, "__module__": "__main__", "__doc__": source.__doc__}
    return type(class_name, (DataSource,), members)


def _name_is_taken(spark: Any, source: Any) -> bool:
    """Register a source; True when its name is taken: by a jar, or (Spark 4.0) by this package, found on the path."""
    try:
        spark.dataSource.register(source)
    except Exception as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
        return True
    return False


@lru_cache(maxsize=1)
def _warn_of_leak() -> None:
    """Say once in a process what pushdown does to rows before Spark 5."""
    if compat.plans_once():
        warnings.warn(_LEAK_WARNING, RuntimeWarning, stacklevel=2)
        _log.warning(_LEAK_WARNING)
