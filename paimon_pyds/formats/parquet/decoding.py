"""Calling pyarrow's Parquet reader, and telling what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa

from paimon_pyds.errors import CorruptFileError, PaimonError, StorageError, UnsupportedError
from paimon_pyds.redaction import scrubbed

__all__ = ["decoding", "metadata_of", "open_file"]


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Turns the errors of pyarrow into ours: what it can't decode is a corrupt file, unless the storage failed.

    Raises:
        CorruptFileError: the bytes are not Parquet.
        StorageError: they could not be read (an OSError with an error number).
        UnsupportedError: an encoding, codec or type that pyarrow does not have.
    """
    try:
        yield
    except PaimonError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"a Parquet feature that is not supported: {error}", path=path) from error
    except OSError as error:
        if error.errno is not None:
            raise StorageError(f"reading failed: {_in_a_line(error)}", path=path) from scrubbed(error)
        raise CorruptFileError(f"the file can't be decoded: {_in_a_line(error)}", path=path) from scrubbed(error)
    except (pa.ArrowException, ValueError, MemoryError, OverflowError) as error:
        raise CorruptFileError(f"the file can't be decoded: {_in_a_line(error)}", path=path) from error


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def metadata_of(footer: bytes) -> Any:
    """Pyarrow's FileMetaData from the bytes of a footer."""
    import pyarrow.parquet as pq

    return pq.read_metadata(pa.BufferReader(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"))


def open_file(source: pa.NativeFile, metadata: Any = None) -> Any:
    """A `pyarrow.parquet.ParquetFile` that checks the checksums of pages, where they have any."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, metadata=metadata, **_settings())


@lru_cache(maxsize=1)
def _settings() -> dict[str, Any]:
    import pyarrow.parquet as pq

    known = pq.ParquetFile.__init__.__code__.co_varnames
    wanted = {"pre_buffer": True, "page_checksum_verification": True, "arrow_extensions_enabled": False}
    return {name: value for name, value in wanted.items() if name in known}
