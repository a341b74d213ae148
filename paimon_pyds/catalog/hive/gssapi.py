"""Kerberos by the GSS-API of the system's library, which clients of HDFS load, too: nothing has to be compiled.

(Source: RFC 2743, 2744, 4121; of MIT's Kerberos, ``gssapi_ext.h``.)
"""

from __future__ import annotations

import uuid
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_uint32,
    c_void_p,
    cast,
    create_string_buffer,
    string_at,
)
from ctypes.util import find_library
from functools import cache
from typing import Any

from paimon_pyds.errors import UnsupportedError

_LIBRARY = "libgssapi_krb5.so.2"
_INITIATE = 1
"""Credentials are wanted to open contexts, not to accept them."""
_CONTINUE = 1
_ERRORS = 0xFFFF0000
"""Bits of a status: another token is needed; the bits of what failed."""
_MUTUAL_IN_ORDER_SECRET = 0x02 | 0x04 | 0x08 | 0x10 | 0x20
"""What a context is wanted for: each side proves its identity; messages neither repeated nor read nor changed."""


class KerberosError(OSError):
    """Kerberos refuses, or has no credentials. The message is that of the library."""


class _Buffer(Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Pair(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


_KERBEROS = _Oid(9, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_PRINCIPAL = _Oid(10, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")
"""Object identifiers of the mechanism, and of names that are principals."""


@cache
def _library() -> CDLL:
    try:
        return CDLL(find_library("gssapi_krb5") or _LIBRARY)
    except OSError:
        raise UnsupportedError(
            f"Kerberos needs {_LIBRARY}",
            hint="install it: libgssapi-krb5-2 on Debian, krb5-libs on Red Hat",
            feature="hive-security",
        ) from None


class Context:
    """What one side has agreed on with a service.

    Args:
        service: its principal, such as ``hive/host@REALM``.
        own: the own principal and the file of its keys; None for the ticket of ``kinit``, or the keys that
            ``KRB5_CLIENT_KTNAME`` names.

    Raises:
        KerberosError: the keys are of no use.
        UnsupportedError: the library is not there.
    """

    def __init__(self, service: str, own: tuple[str, str] | None = None) -> None:
        self._context, self._credentials = c_void_p(), c_void_p()
        self.established = False
        self._service = _name(service)
        if own is not None:
            pairs = (_Pair * 2)(
                _Pair(b"client_keytab", own[1].encode()), _Pair(b"ccache", f"MEMORY:{uuid.uuid4()}".encode())
            )
            self._call(
                "gss_acquire_cred_from", _name(own[0]), c_uint32(0), None, c_int(_INITIATE), byref(_Store(2, pairs)),
                byref(self._credentials), None, None,
            )  # fmt: skip

    def step(self, token: bytes) -> bytes:
        """The answer to what the service has sent; at first to nothing. Raises KerberosError."""
        out = _Buffer()
        status = self._call(
            "gss_init_sec_context", self._credentials, byref(self._context), self._service, byref(_KERBEROS),
            c_uint32(_MUTUAL_IN_ORDER_SECRET), c_uint32(0), None, byref(_buffer(token)), None, byref(out), None, None,
        )  # fmt: skip
        self.established = not status & _CONTINUE
        return _taken(out)

    def wrap(self, data: bytes, *, secret: bool) -> bytes:
        """Data for the service, signed. ``secret``: and encrypted. Raises KerberosError."""
        out = _Buffer()
        given = (self._context, c_int(secret), c_uint32(0), byref(_buffer(data)))
        self._call("gss_wrap", *given, None, byref(out))
        return _taken(out)

    def unwrap(self, data: bytes) -> bytes:
        """The data of the service, whose signature is checked. Raises KerberosError."""
        out = _Buffer()
        self._call("gss_unwrap", self._context, byref(_buffer(data)), byref(out), None, None)
        return _taken(out)

    def _call(self, name: str, *arguments: Any) -> int:
        return _called(name, *arguments)

    def __del__(self) -> None:
        minor = c_uint32()
        if self._context:
            _library().gss_delete_sec_context(byref(minor), byref(self._context), None)
        if self._credentials:
            _library().gss_release_cred(byref(minor), byref(self._credentials))


def _name(principal: str) -> c_void_p:
    found = c_void_p()
    _called("gss_import_name", byref(_buffer(principal.encode())), byref(_PRINCIPAL), byref(found))
    return found


def _called(name: str, *arguments: Any) -> int:
    """The status of a call. Raises KerberosError."""
    minor, call = c_uint32(), getattr(_library(), name)
    call.restype = c_uint32
    status = int(call(byref(minor), *arguments))
    if status & _ERRORS:
        raise KerberosError("; ".join(filter(None, (_text(status, 1), _text(minor.value, 2)))))
    return status


def _text(code: int, kind: int) -> str:
    """What a code means: of the GSS-API if ``kind`` is 1, of Kerberos if it is 2."""
    out, more, minor = _Buffer(), c_uint32(), c_uint32()
    _library().gss_display_status(
        byref(minor), c_uint32(code), c_int(kind), byref(_KERBEROS), byref(more), byref(out)
    )  # fmt: skip
    return _taken(out).decode(errors="replace")


def _buffer(data: bytes) -> _Buffer:
    held = create_string_buffer(data, len(data) or 1)
    found = _Buffer(len(data), cast(held, c_void_p))
    found.held = held  # as long as the structure lives
    return found


def _taken(buffer: _Buffer) -> bytes:
    """What the library put there; its memory is given back."""
    data = string_at(buffer.value, buffer.length) if buffer.length else b""
    _library().gss_release_buffer(byref(c_uint32()), byref(buffer))
    return data
