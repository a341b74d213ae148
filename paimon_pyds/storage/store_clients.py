"""Clients of obstore, from the arguments that `store_options` makes of options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

from obstore.store import AzureStore, GCSStore, S3Store

from paimon_pyds.storage import scheme_of
from paimon_pyds.storage.aws_profile import CredentialProvider, current_profile, role_credentials
from paimon_pyds.storage.store_options import ENDPOINTS, check_texts, family

REQUESTS_AT_ONCE = 128
TIMEOUTS = {"connect_timeout": 5, "request_timeout": 30, "retry_timeout": 20}
"""Seconds: until there is a connection; that a store may be silent; after which nothing is tried again."""
_ENDPOINT = ENDPOINTS[0]
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_NO_SETTINGS = frozenset({*TIMEOUTS, "role_arn", "project_id"})
"""Arguments that are no setting of a client."""
_WHOLE_REQUEST = timedelta(minutes=5)


def store_client(root: str, bucket: str, arguments: Mapping[str, Any], timeouts: Mapping[str, int], tries: int) -> Any:
    """A client of one bucket, or container.

    Args:
        root: an address in the store.
        bucket: its name.
        arguments: see `paimon_pyds.storage.store_options.client_arguments`.
        timeouts: seconds: ``connect_timeout``, ``request_timeout``, ``retry_timeout``.
        tries: how often a request is sent again.

    Raises:
        ValueError: arguments that are wrong. So do obstore's own errors, TypeError and OverflowError.
    """
    kind = family(scheme_of(root))
    config = {name: value for name, value in arguments.items() if name not in _NO_SETTINGS}
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=timeouts["connect_timeout"]),
        "read_timeout": timedelta(seconds=timeouts["request_timeout"]),
        "timeout": max(_WHOLE_REQUEST, timedelta(seconds=timeouts["request_timeout"])),
        "pool_max_idle_per_host": str(REQUESTS_AT_ONCE),
    }
    for address in ENDPOINTS & config.keys():
        if "://" not in config[address]:
            config[address] = f"https://{config[address]}"
        client["allow_http"] = config[address].startswith("http://")
    retry = {"max_retries": tries, "retry_timeout": timedelta(seconds=timeouts["retry_timeout"])}
    common: Any = {"client_options": client, "retry_config": retry}
    if kind == "gcs":
        return GCSStore(bucket, config=cast(Any, config), **common)
    if kind == "azure":
        config.setdefault("account_name", root.partition("@")[2].partition(".")[0])
        return AzureStore(bucket, config=cast(Any, config), **common)
    if _ENDPOINT in config and config.setdefault("virtual_hosted_style_request", False):
        scheme, _, host = config[_ENDPOINT].partition("://")
        config[_ENDPOINT] = f"{scheme}://{bucket}.{host}"
    if not ("region" in config or {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys()) and (
        region := current_profile().region
    ):
        config["region"] = region
    return S3Store(bucket, config=cast(Any, config), credential_provider=cast(Any, _s3_keys(arguments)), **common)


def marker_client(store: Any, key: str) -> Any:
    """A client of S3 or Google Cloud Storage whose empty key is ``key/``, an object that stands for a directory.

    obstore takes ``/`` from the end of all other keys. A list of keys to delete has no such name, so it is not used.
    """
    config: Any = {**store.config}
    common: Any = {name: getattr(store, name) for name in ("client_options", "retry_config", "credential_provider")}
    bucket = config.pop("bucket")
    if isinstance(store, GCSStore):
        above, _, name = f"{bucket}/{key}".rpartition("/")
        address = config.get("base_url", "https://storage.googleapis.com")
        return GCSStore(name, config=config | {"base_url": f"{address}/{quote(above)}"}, **common)
    address = config.pop(_ENDPOINT.removeprefix("aws_"), "")  # as obstore shows it, and does not take it
    if not address:
        region = config.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        address = f"https://s3.{region or 'us-east-1'}.amazonaws.com/{bucket}"
    elif config.get("virtual_hosted_style_request") != "true":
        address = f"{address}/{bucket}"
    directory = {_ENDPOINT: f"{address}/{quote(key)}", "virtual_hosted_style_request": "true"}
    return S3Store(bucket, config=config | directory | {"aws_disable_bulk_delete": "true"}, **common)


def _s3_keys(arguments: Mapping[str, Any]) -> CredentialProvider | None:
    """What gives out keys of S3; None where obstore finds them itself. Raises OptionError for one with a line break."""
    if "role_arn" in arguments:
        return role_credentials(arguments["role_arn"], arguments)
    if not _has_keys(arguments):
        return current_profile().credentials()
    if not {"access_key_id", "secret_access_key"} <= arguments.keys():
        check_texts({name: os.environ[name] for name in _KEYS if name in os.environ})
        return None
    # obstore would add a session token of the environment to them
    keys = {
        "access_key_id": arguments["access_key_id"],
        "secret_access_key": arguments["secret_access_key"],
        "token": arguments.get("session_token"),
        "expires_at": None,
    }
    return lambda: keys


def _has_keys(arguments: Mapping[str, Any]) -> bool:
    """Whether options or the environment give keys of S3, or say that none are needed: profiles come after these."""
    given = "access_key_id" in arguments or arguments.get("skip_signature", False)
    return given or "AWS_ACCESS_KEY_ID" in os.environ


def has_keys(arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments themselves have credentials, for any store."""
    own = {"access_key_id", "bearer_token", "account_key", "sas_key", "client_secret", "skip_signature"}
    return bool(own & arguments.keys()) and "role_arn" not in arguments
