"""Clients of hdfs-native, shared by all that reach one name service in the same way: they share its connections."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import TypeVar
from weakref import WeakValueDictionary

import hdfs_native

from paimon_pyds.errors import OptionError
from paimon_pyds.storage.hdfs_address import address_of, check_host, client_settings
from paimon_pyds.storage.hdfs_user import take_user

_NO_FILES = "/nonexistent"  # hdfs-native would read the files of the environment again, over what is set here
AnyClient = TypeVar("AnyClient", hdfs_native.Client, hdfs_native.AsyncClient)
_clients: WeakValueDictionary[tuple[type, bytes], object] = WeakValueDictionary()
"""Those in use, by their kind and what they are made of."""


def client_of(
    kind: type[AnyClient],
    root: str,
    options: Mapping[str, str],
    settings: Mapping[str, str],
    *,
    user: str | None,
    ticket: str | None,
) -> AnyClient:
    """The client of a kind for a location, which connects at its first call.

    ``options``: storage options, of which those of Kerberos count here. ``settings``: Hadoop's. ``user``: as whom to
    act. ``ticket``: a file with a ticket of Kerberos.

    Raises:
        OptionError: the process acts as another user already, a keytab is not there, or nothing names a name node.
        StorageError: no host has this name.
    """
    if settings.get("hadoop.security.authentication", "simple").lower() != "kerberos":
        take_user(user)
    elif user is not None:
        raise OptionError(
            "hdfs.user is not for clusters with Kerberos",
            path=root,
            hint="leave it out: the ticket names the user, or security.kerberos.login.principal",
        )
    keytab = options.get("security.kerberos.login.keytab")
    if keytab is not None and not os.path.isfile(keytab):
        raise OptionError(f"security.kerberos.login.keytab is no file of this machine: {keytab:.200}")
    address = address_of(root, settings)
    check_host(address, settings, root)
    own = sorted((k, v) for k, v in options.items() if not k.startswith("hadoop"))
    ambient = sorted((k, v) for k, v in os.environ.items() if k.startswith(("HADOOP_", "KRB5")))
    made_of = sha256(repr((address, own, ambient, sorted(settings.items()))).encode()).digest()
    client = _clients.get((kind, made_of))
    if not isinstance(client, kind):
        client = _clients[kind, made_of] = kind(
            address,
            client_settings(address, settings),
            _NO_FILES,
            kerberos_principal=options.get("security.kerberos.login.principal"),
            kerberos_keytab=keytab,
            kerberos_cache=ticket,
        )
    return client
