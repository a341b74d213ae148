"""Connections to a metastore: plain, by TLS, and with Kerberos (SASL) over either.

(Source: Apache Thrift, doc/specs/SASL.txt; RFC 4752; Apache Hive 3.1, classes HiveMetaStoreClient and MetastoreConf.)
"""

from __future__ import annotations

import re
import ssl
import struct
from typing import Any

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import (
    TBufferedTransport,
    TFramedTransport,
    TTransportBase,
    TTransportException,
)

from paimon_pyds.catalog.hive.gssapi import Context
from paimon_pyds.catalog.hive.settings import HiveSettings
from paimon_pyds.errors import OptionError

_START, _OK, _COMPLETE = 1, 2, 5
_SIGNED, _SECRET = 2, 4
_LONGEST = 1 << 20
"""Bytes of a message before both sides know one another."""
_LARGEST_FRAME = 1 << 30
_CERTIFICATES = re.compile("-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def open_transport(settings: HiveSettings, host: str, port: int) -> Any:
    """An open connection, as protocols of Thrift take it.

    Raises:
        OptionError: the truststore is no file of certificates.
        TTransportException, OSError: it can't be opened.
        UnsupportedError: a library is missing.
    """
    socket = TSocket(host, port)
    socket.setTimeout(settings.timeout * 1000)
    secured = None if settings.tls is None else _tls(settings.tls)
    try:
        socket.open()
        if secured is not None:
            socket.setHandle(secured.wrap_socket(socket.handle, server_hostname=host))
        if settings.principal is not None:
            return SaslTransport(socket, Context(settings.principal.replace("_HOST", host.lower()), settings.keytab))
    except BaseException:
        socket.close()
        raise
    return (TFramedTransport if settings.framed else TBufferedTransport)(socket)


def _tls(truststore: str) -> ssl.SSLContext:
    """What checks the server's certificate and name. ``truststore``: a PEM file; empty for the system's own."""
    if not truststore:
        return ssl.create_default_context()
    try:
        with open(truststore, encoding="latin-1") as file:
            text = file.read(_LARGEST_FRAME)
    except OSError as error:
        raise OptionError(
            f"hive.metastore.truststore.path can't be read ({error.strerror})", path=truststore
        ) from error
    found = _CERTIFICATES.findall(text)
    if not found:
        raise OptionError(
            "hive.metastore.truststore.path must be a PEM file, and is not",
            path=truststore,
            hint="export the certificates of Java's: keytool -list -rfc -keystore FILE > FILE.pem",
        )
    return ssl.create_default_context(cadata="\n".join(found))


class SaslTransport(TTransportBase):  # type: ignore[misc]
    """Messages in frames, signed or encrypted as the metastore wants it, once each side has proved its identity.

    ``socket``: open. Raises TTransportException, OSError: the metastore refuses; KerberosError: so does Kerberos.
    """

    def __init__(self, socket: TSocket, context: Context) -> None:
        self._socket, self._context = socket, context
        self._read, self._at, self._written = b"", 0, bytearray()
        self._send(_START, b"GSSAPI")
        self._send(_OK, context.step(b""))
        while not context.established:
            self._send(_OK, context.step(self._receive(_OK)))
        self._layers = self._agreed(context.unwrap(self._receive(_OK)))
        self._send(_OK, context.wrap(bytes([self._layers, 0xFF, 0xFF, 0xFF]), secret=False))
        self._receive(_COMPLETE)

    @staticmethod
    def _agreed(offer: bytes) -> int:
        """The strongest of the layers that the metastore offers."""
        found = next((layer for layer in (_SECRET, _SIGNED, 1) if len(offer) == 4 and offer[0] & layer), None)
        if found is None:
            raise TTransportException(TTransportException.UNKNOWN, "SASL: the metastore offers no layer of security")
        return found

    def _send(self, status: int, body: bytes) -> None:
        self._socket.write(struct.pack(">BI", status, len(body)) + body)
        self._socket.flush()

    def _receive(self, wanted: int) -> bytes:
        status, length = struct.unpack(">BI", self._socket.readAll(5))
        if length > _LONGEST:
            raise TTransportException(TTransportException.SIZE_LIMIT, "SASL: a message is too long")
        body: bytes = self._socket.readAll(length)
        if status != wanted:
            text = body.decode(errors="replace") or f"status {status}"
            raise TTransportException(TTransportException.NOT_OPEN, f"SASL: the metastore refuses: {text}")
        return body

    def isOpen(self) -> bool:
        return bool(self._socket.isOpen())

    def close(self) -> None:
        self._socket.close()

    def read(self, sz: int) -> bytes:
        if self._at == len(self._read):
            (length,) = struct.unpack(">I", self._socket.readAll(4))
            if length > _LARGEST_FRAME:
                raise TTransportException(TTransportException.SIZE_LIMIT, "SASL: a frame is too long")
            frame = self._socket.readAll(length)
            self._read, self._at = self._context.unwrap(frame) if self._layers > 1 else frame, 0
        data = self._read[self._at : self._at + sz]
        self._at += len(data)
        return data

    def write(self, buf: bytes) -> None:
        self._written += buf

    def flush(self) -> None:
        data, self._written = bytes(self._written), bytearray()
        if self._layers > 1:
            data = self._context.wrap(data, secret=self._layers == _SECRET)
        self._socket.write(struct.pack(">I", len(data)) + data)
        self._socket.flush()
