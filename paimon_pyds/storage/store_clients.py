"""Clients of obstore, from the arguments that `store_options` makes of options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

import obstore
from obstore.store import AzureStore, GCSStore, S3Store

from paimon_pyds.storage import scheme_of
from paimon_pyds.storage.aws_profile import current_profile
from paimon_pyds.storage.store_options import S3_LIKE, check_texts, family

REQUESTS_AT_ONCE = 128
TIMEOUTS = {"connect_timeout": 5, "request_timeout": 30, "retry_timeout": 20}
"""Seconds: until there is a connection; that a store may be silent; after which nothing is tried again."""
_ENDPOINT = "aws_endpoint_url_s3"
"""The endpoint of S3 for obstore: its other name for it loses against variables of the environment."""
_NAMES: dict[str, dict[str, str]] = {
    "s3": {
        "access_key": "access_key_id",
        "secret_key": "secret_access_key",
        "session_token": "session_token",
        "region": "region",
        "endpoint_override": _ENDPOINT,
        "force_virtual_addressing": "virtual_hosted_style_request",
        "anonymous": "skip_signature",
    },
    "gcs": {
        "access_token": "bearer_token",
        "service_account": "service_account",
        "anonymous": "skip_signature",
        "endpoint_override": "base_url",
    },
    "azure": {
        "account_name": "account_name",
        "account_key": "account_key",
        "sas_token": "sas_key",
        "tenant_id": "tenant_id",
        "client_id": "client_id",
        "client_secret": "client_secret",
        "authority_host": "authority_host",
        "endpoint_override": "endpoint",
    },
}
"""What pyarrow's arguments are called by obstore."""
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_WHOLE_REQUEST = timedelta(minutes=5)
_SIGNED = timedelta(minutes=5)
"""For how long an address is good."""


def is_served(root: str, arguments: Mapping[str, Any]) -> bool:
    """Whether obstore knows what all arguments mean, and gets the keys that the environment names."""
    kind = family(scheme_of(root))
    if not {*_names(kind), *TIMEOUTS, "project_id"}.issuperset(arguments):
        return False
    return kind != "s3" or _has_keys(arguments) or current_profile().readable


def _names(kind: str) -> dict[str, str]:
    return _NAMES["s3" if kind in S3_LIKE else kind]


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
    config = {own: arguments[name] for name, own in _names(kind).items() if name in arguments}
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=timeouts["connect_timeout"]),
        "read_timeout": timedelta(seconds=timeouts["request_timeout"]),
        "timeout": max(_WHOLE_REQUEST, timedelta(seconds=timeouts["request_timeout"])),
        "pool_max_idle_per_host": str(REQUESTS_AT_ONCE),
    }
    address = _names(kind)["endpoint_override"]
    if "://" not in config.get(address, "://"):
        config[address] = f"https://{config[address]}"
    client["allow_http"] = config.get(address, "").startswith("http://")
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


def _s3_keys(arguments: Mapping[str, Any]) -> Callable[[], dict[str, Any]] | None:
    """What gives out keys of S3; None where obstore finds them itself. Raises OptionError for one with a line break."""
    if not _has_keys(arguments):
        return current_profile().credentials()
    if not {"access_key", "secret_key"} <= arguments.keys():
        check_texts({name: os.environ[name] for name in _KEYS if name in os.environ})
        return None
    # obstore would add a session token of the environment to them
    keys = {
        "access_key_id": arguments["access_key"],
        "secret_access_key": arguments["secret_key"],
        "token": arguments.get("session_token"),
        "expires_at": None,
    }
    return lambda: keys


def _has_keys(arguments: Mapping[str, Any]) -> bool:
    """Whether options or the environment give keys of S3, or say that none are needed: profiles come after these."""
    return "access_key" in arguments or arguments.get("anonymous", False) or "AWS_ACCESS_KEY_ID" in os.environ


def has_keys(arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments themselves have credentials, for any store."""
    return bool(
        {"access_key", "access_token", "account_key", "sas_token", "client_secret", "anonymous"} & arguments.keys()
    )


def listing_address(store: S3Store, prefix: str, after: str) -> str:
    """The signed address of a listing of the keys directly below a prefix, after a name.

    obstore signs addresses of objects only. It puts ``/`` and the key behind its endpoint: with the endpoint being a
    listing that lacks its delimiter, and an empty key, that is the address of the listing.
    """
    own: dict[str, Any] = {**store.config}
    if _ENDPOINT.removeprefix("aws_") in own:  # as obstore shows it, and does not take it
        own[_ENDPOINT] = own.pop(_ENDPOINT.removeprefix("aws_"))
    anonymous = own.pop("skip_signature", "false") == "true"
    keys: dict[str, Any] = {"credential_provider": cast(Any, store.credential_provider)}
    if anonymous:
        keys = {"credential_provider": lambda: {"access_key_id": "-", "secret_access_key": "-", "expires_at": None}}
    plain = S3Store(config=cast(Any, own), client_options=store.client_options, **keys)
    bucket = obstore.sign(plain, "GET", "x", _SIGNED).partition("?")[0].removesuffix("/x")
    names = {"list-type": "2", "max-keys": "10", **({"start-after": after} if after else {}), "prefix": prefix}
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in names.items())
    own |= {_ENDPOINT: f"{bucket}?{query}&delimiter=", "virtual_hosted_style_request": "true"}
    listing = S3Store(config=cast(Any, own), client_options=store.client_options, **keys)
    address = obstore.sign(listing, "GET", "", _SIGNED)
    return address.partition("&X-Amz-")[0] if anonymous else address
