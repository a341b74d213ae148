"""Global indexes that answer a search by its best rows: of vectors (IVF, DiskANN) and of texts.

Their files belong to the packages paimon-vindex and paimon-ftindex, which are not installed with this one. Row ids
count from the first row that an index covers; rows that are NULL are in none. (Source: Paimon documentation,
multimodal-table/global-index; Java Paimon 2.2 and pypaimon 2.1 use the same two libraries.)
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.errors import CorruptFileError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.index.global_index.row_ids import encode_row_ids
from paimon_pyds.storage.byte_source import FileSource

Vectors = npt.NDArray[np.float32]
VECTOR_TYPES = ("ivf-flat", "diskann", "ivf-sq", "ivf-rq", "ivf-pq")
"""Indexes of vectors by their names in manifests, those that know distances best first."""
FULL_TEXT = "full-text"
SEARCH_TYPES = (*VECTOR_TYPES, FULL_TEXT)
METRICS = ("l2", "cosine", "inner_product")
DEFAULT_METRIC = "inner_product"
"""What Java's indexes have where nothing else is said."""
_OVERSAMPLED = {"ivf-sq": 2, "ivf-rq": 4, "ivf-pq": 8}
"""How many times the wanted rows are taken from indexes that know distances about only."""
_VECTORS, _TEXTS = ("paimon_vindex", "paimon-vindex"), ("paimon_ftindex", "paimon-ftindex")
_OPTION = {"distance.metric": "metric", "pq.use-opq": "use-opq", "index.dimension": "dimension"}
"""Options of tables that the library gives another name."""
_OF_LIBRARY = (
    "nlist", "metric", "expected-vector-count", "ivf.", "pq.", "rq.", "use-opq", "target-recall",
    "max-bytes-per-vector", "deployment-profile", "diskann.",
)  # fmt: skip
_OF_DISKANN = ("build-preset", "max-degree", "build-search-list-size", "alpha", "seed", "storage-layout")
_ROWS_AT_ONCE = 10_000
"""Vectors that a library gets at a time: it copies them."""


class Hits(NamedTuple):
    """Rows that a search found, and how well each one matches: more is better."""

    rows: Int64s
    scores: npt.NDArray[np.float64]


def has_package(index_type: str) -> bool:
    """Whether the package that opens indexes of a type is installed."""
    try:
        package(index_type)
    except UnsupportedError:
        return False
    return True


def package(index_type: str) -> Any:
    """The package that opens indexes of a type. Raises UnsupportedError: it is not installed."""
    module, name = _TEXTS if index_type == FULL_TEXT else _VECTORS
    try:
        return import_module(module)
    except (ImportError, OSError):
        raise UnsupportedError(
            f"indexes of the type {index_type} need the package {name}", hint="pip install 'paimon-pyds[search]'"
        ) from None


class _Input:
    """The bytes of an index file for a library, which loses the errors of what it calls. ``error``: the first one."""

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self.error: PaimonError | None = None

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        size = self._source.size
        if any(offset + length > size for offset, length in ranges):
            return []
        try:
            return self._source.read_many(ranges)
        except PaimonError as error:
            self.error = self.error or error
            raise

    def pread(self, offset: int, length: int) -> bytes:
        return b"".join(self.pread_many([(offset, length)]))


@contextmanager
def _opened(source: FileSource) -> Iterator[_Input]:
    """The bytes of a file. Raises CorruptFileError for errors of the library, StorageError for those of the storage."""
    given = _Input(source)
    try:
        yield given
    except PaimonError:
        raise
    except (RuntimeError, ValueError) as error:
        if given.error is not None:
            raise given.error from None
        raise CorruptFileError(
            f"the index can't be read: {error}", path=source.name, hint="drop the index, and build it again"
        ) from None


def _among(rows: Int64s | None) -> bytes | None:
    return None if rows is None else encode_row_ids(rows)


def _checked(rows: Int64s, row_count: int, source: FileSource) -> Int64s:
    if len(rows) and not 0 <= rows.min() <= rows.max() < row_count:
        raise CorruptFileError(f"a row outside of the {row_count} rows of an index", path=source.name, field="row ids")
    return rows


# -------------------------------------------------------------------------------------------------------------- vectors


def vector_metric(index_type: str, source: FileSource) -> str:
    """How an index measures distances: one of `METRICS`. Raises as `nearest`."""
    with _opened(source) as given, package(index_type).VectorIndexReader(given) as reader:
        return str(reader.metadata().metric)


class Wanted(NamedTuple):
    """A search for the ``k`` rows that are nearest to a vector. ``metric``: one of `METRICS`."""

    vector: npt.NDArray[np.float64]
    metric: str
    k: int


def nearest(index_type: str, source: FileSource, wanted: Wanted, row_count: int, among: Int64s | None) -> Int64s | None:
    """Rows that are about the nearest ones to a vector, by an index: ``k`` or some more, unordered. None where it
    measures distances in another way, or does not find as many as there are. ``row_count``: the rows that it covers;
    ``among``: those that count, sorted; all of them if None.

    Raises:
        CorruptFileError: the file is damaged.
        StorageError: it can't be read.
        UnsupportedError: the package is not installed.
    """
    library = package(index_type)
    with _opened(source) as given, library.VectorIndexReader(given) as reader:
        known = reader.metadata()
        there = min(known.total_vectors, row_count if among is None else len(among))
        if known.metric != wanted.metric or known.dimension != len(wanted.vector):
            return None
        if not there:
            return np.zeros(0, np.int64)
        width = library.SearchParams.automatic(min(wanted.k * _OVERSAMPLED.get(index_type, 1), there))
        found, _ = reader.search(wanted.vector.astype(np.float32), width, filter_bytes=_among(among))
        found = _checked(found[found >= 0], row_count, source)
        return found if len(found) >= min(wanted.k, there) else None


def write_vectors(index_type: str, column: str, ids: Int64s, vectors: Vectors, options: Mapping[str, str]) -> bytes:
    """The bytes of an index of vectors, of one at least. ``options``: as `vector_options` gives them.

    Raises:
        OptionError: the options of the index are wrong.
        UnsupportedError: the package is not installed.
    """
    library = package(index_type)
    given = {
        "metric": DEFAULT_METRIC, "expected-vector-count": str(len(ids)), **options,
        "index.type": index_type.replace("-", "_"), "dimension": str(vectors.shape[1]),
    }  # fmt: skip
    starts, out = range(0, len(ids), _ROWS_AT_ONCE), io.BytesIO()
    try:
        with library.VectorIndexTrainer.create(given) as trainer:
            for start in starts:
                trainer.add_training_vectors(vectors[start : start + _ROWS_AT_ONCE])
            training = trainer.finish_training()
        with library.VectorIndexWriter(training) as writer:
            for start in starts:
                writer.add_vectors(ids[start : start + _ROWS_AT_ONCE], vectors[start : start + _ROWS_AT_ONCE])
            writer.write(out)
    except RuntimeError as error:
        raise OptionError(f"the index {index_type} of {column!r} can't be built: {error}") from None
    return out.getvalue()


def vector_options(index_type: str, column: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of an index of vectors by the library's names; those of the column come before those of the type."""
    found: dict[str, str] = {}
    for prefix in (f"{index_type}.", f"fields.{column}."):
        for key, value in options.items():
            name = key.removeprefix(prefix)
            name = f"diskann.{name}" if index_type == "diskann" and name in _OF_DISKANN else _OPTION.get(name, name)
            if key.startswith(prefix) and name.startswith(_OF_LIBRARY):
                found[name] = value
    return found


def metric_of(column: str, options: Mapping[str, str]) -> str:
    """How distances are measured where no index says it: by the column's option, or that of a type of index."""
    prefixes = (f"fields.{column}.", *(f"{index_type}." for index_type in VECTOR_TYPES), "")
    keys = (prefix + name for prefix in prefixes for name in ("distance.metric", "metric"))
    found = next((options[key] for key in keys if key in options), DEFAULT_METRIC)
    return found.strip().lower().replace("-", "_")


# ---------------------------------------------------------------------------------------------------------------- texts


def text_query(query: str | Mapping[str, Any]) -> str:
    """A query as the library takes it: of a text, rows that have any of its words."""
    return json.dumps({"match": {"query": query}} if isinstance(query, str) else dict(query))


def best_texts(source: FileSource, query: str, k: int, row_count: int, among: Int64s | None) -> Hits:
    """The rows that match a query best (BM25), ``k`` at most. ``row_count``: the rows that the index covers; ``among``:
    those that count, all of them if None.

    Raises:
        OptionError: this is no query.
        CorruptFileError, StorageError, UnsupportedError: as `nearest`.
    """
    library = package(FULL_TEXT)
    with _opened(source) as given, library.FullTextIndexReader(given) as reader:
        return _best(reader, query, min(k, row_count), among, lambda rows: _checked(rows, row_count, source))


def best_of_texts(texts: pa.Array, query: str, k: int, options: Mapping[str, str]) -> Hits:
    """The same of some texts, by their positions, with an index that is made for them. Raises as `best_texts`."""
    library, data = package(FULL_TEXT), io.BytesIO(write_texts(np.arange(len(texts)), texts, options))

    class Bytes:
        def pread(self, offset: int, length: int) -> bytes:
            data.seek(offset)
            return data.read(length)

    with library.FullTextIndexReader(Bytes()) as reader:
        return _best(reader, query, min(k, len(texts)), None, lambda rows: rows)


def _best(reader: Any, query: str, k: int, among: Int64s | None, checked: Any) -> Hits:
    try:
        rows, scores = reader.search(query, max(k, 1), filter_bytes=_among(among))
    except RuntimeError as error:
        if str(error).startswith(("json error", "invalid query")):
            raise OptionError(
                f"not a query for texts: {error}", hint='such as {"match": {"query": "two words"}}'
            ) from None
        raise
    return Hits(checked(np.array(rows, np.int64)), np.array(scores, np.float64))


def text_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of an index of texts by the library's names, among those of a table."""
    prefix = f"{FULL_TEXT}."
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}


def read_text_options(meta: bytes | None) -> dict[str, str]:
    """The same of an index that is there, by its manifest. Raises CorruptFileError: it does not hold options."""
    try:
        return {str(key): str(value) for key, value in json.loads(meta or b"{}").items()}
    except (ValueError, AttributeError):
        raise CorruptFileError("a manifest has no JSON of options for an index of texts", field="_INDEX_META") from None


def write_texts(ids: Int64s, texts: pa.Array, options: Mapping[str, str]) -> bytes:
    """The bytes of an index of texts. ``options``: as `text_options` gives them.

    Raises:
        OptionError: the options are wrong.
        UnsupportedError: the package is not installed.
    """
    library, out = package(FULL_TEXT), io.BytesIO()
    try:
        with library.FullTextIndexWriter(dict(options)) as writer:
            for row, text in zip(ids.tolist(), texts.to_pylist(), strict=True):  # the library takes one at a time
                if text is not None:
                    writer.add_document(row, text)
            writer.write(out)
    except RuntimeError as error:
        raise OptionError(f"no index of texts can be built: {error}") from None
    return out.getvalue()
