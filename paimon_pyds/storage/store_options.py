"""Options of object stores: names that Paimon, Hadoop and the vendors give them, as arguments of the stores' clients.

(Source: Java Paimon 1.4, the FileIO classes of paimon-filesystems, which hand options on to Hadoop; its documentation
of S3A, ABFS and hadoop-aliyun; of the Cloud Storage connector, ``CONFIGURATION.md``; and of OBSA-HDFS.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from paimon_pyds.base.secrets import UNSEEN, redact, visible
from paimon_pyds.base.text import whole_number
from paimon_pyds.errors import OptionError, suggest
from paimon_pyds.storage.aws_profile import configured_endpoint

S3_LIKE = frozenset({"s3", "oss", "obs"})
"""The kinds of stores that speak the protocol of S3."""
_FAMILIES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure", "viewfs": "hdfs"}
_PREFIXES = {
    "s3": ("s3.", "s3a.", "fs.s3a."),
    "gcs": ("gs.", "fs.gs."),
    "azure": ("azure.", "fs.azure."),
    "oss": ("fs.oss.",),
    "obs": ("fs.obs.",),
    "hdfs": ("hdfs.",),
}
"""What the names of a kind of store begin with; the first is what they are looked up by."""
_OF_HADOOP = (
    "hadoop-conf-dir", "hadoop-conf-loader", "hadoop-load-default-config", "security.kerberos.login.principal",
    "security.kerberos.login.keytab", "security.kerberos.login.use-ticket-cache",
)  # fmt: skip
"""Options for HDFS of Java Paimon; those of Hadoop are called ``hadoop.NAME``. The client itself
has what ``hadoop-load-default-config`` loads."""
_PATH_STYLE = "s3.path-style-access"
ENDPOINTS = ("aws_endpoint_url_s3", "base_url", "endpoint")
"""The arguments that name an endpoint. The first is the only one of obstore's for S3 that wins against variables of the
environment."""
_TIMEOUTS = ("request-timeout", "connect-timeout", "retry-timeout")
_ARGUMENTS = {
    _PATH_STYLE: "virtual_hosted_style_request",
    "s3.access-key": "access_key_id",
    "s3.secret-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "s3.endpoint": "aws_endpoint_url_s3",
    "s3.role-arn": "role_arn",
    "s3.anonymous": "skip_signature",
    "gs.access-token": "bearer_token",
    "gs.anonymous": "skip_signature",
    "gs.endpoint": "base_url",
    "gs.project-id": "project_id",
    "gs.auth.service.account.json.keyfile": "service_account",
    "gs.auth.type": "authentication",
    "azure.account-name": "account_name",
    "azure.account-key": "account_key",
    "azure.sas-token": "sas_key",
    "azure.tenant-id": "tenant_id",
    "azure.client-id": "client_id",
    "azure.client-secret": "client_secret",
    "azure.endpoint": "endpoint",
    "azure.account.auth.type": "authentication",
    "azure.account.oauth.provider.type": "authentication",
    "azure.account.oauth2.client.endpoint": "oauth_endpoint",
    "fs.oss.endpoint": "aws_endpoint_url_s3",
    "fs.oss.accesskeyid": "access_key_id",
    "fs.oss.accesskeysecret": "secret_access_key",
    "fs.oss.securitytoken": "session_token",
    "fs.oss.region": "region",
    "fs.obs.endpoint": "aws_endpoint_url_s3",
    "fs.obs.access.key": "access_key_id",
    "fs.obs.secret.key": "secret_access_key",
    "fs.obs.session.token": "session_token",
    **{
        f"{prefix}.{name}": name.replace("-", "_")
        for prefix in ("s3", "gs", "azure", "fs.oss", "fs.obs")
        for name in _TIMEOUTS
    },
    "hdfs.user": "user",
    "hdfs.replication": "replication",
    "hdfs.kerberos-ticket": "kerb_ticket",
}
"""Settings of obstore's clients, and arguments of clients of HDFS, by the names of storage options."""
_ALIASES = {
    "s3.access.key": "s3.access-key",
    "s3.secret.key": "s3.secret-key",
    "s3.path.style.access": _PATH_STYLE,
    **dict.fromkeys(("s3.session.token", "s3.security-token", "s3.security.token"), "s3.session-token"),
    "s3.endpoint.region": "s3.region",
    "gs.project.id": "gs.project-id",
    "gs.storage.root.url": "gs.endpoint",
    "azure.account.key": "azure.account-key",
    "azure.sas.fixed.token": "azure.sas-token",
    "azure.account.oauth2.client.id": "azure.client-id",
    "azure.account.oauth2.client.secret": "azure.client-secret",
    "azure.account.oauth2.msi.tenant": "azure.tenant-id",
}
"""Other spellings of options, by Java Paimon and Hadoop."""
_ELSEWHERE = {
    **dict.fromkeys(("aws_access_key_id", "access_key", "key"), "s3.access-key"),
    **dict.fromkeys(("aws_secret_access_key", "secret_key", "secret"), "s3.secret-key"),
    **dict.fromkeys(("aws_session_token", "session_token"), "s3.session-token"),
    **dict.fromkeys(("aws_region", "aws_default_region", "region_name"), "s3.region"),
    **dict.fromkeys(("aws_endpoint_url", "aws_endpoint_url_s3", "endpoint_url", "endpoint_override"), "s3.endpoint"),
}
"""What other tools call them, which have no likeness to our names, or more to others."""
_LIKE_A_NAME = re.compile(r"[\w.:-]{1,80}")
_AUTHENTICATION: dict[str, dict[str, dict[str, Any]]] = {
    "gs.auth.type": {
        "application_default": {},
        "compute_engine": {},
        "service_account_json_keyfile": {},
        "unauthenticated": {"skip_signature": True},
    },
    "azure.account.auth.type": {"sharedkey": {}, "oauth": {}, "sas": {}},
    "azure.account.oauth.provider.type": {
        "clientcredstokenprovider": {},
        "msitokenprovider": {},
        "workloadidentitytokenprovider": {},
    },
}
"""Ways to identify oneself that clients find by what else is given, and what one of them is to a client."""
_FLAGS = frozenset({"skip_signature"})
_NUMBERS = frozenset({"request_timeout", "connect_timeout", "retry_timeout", "replication"})
_NOT_TEXTS = _FLAGS | _NUMBERS | {"virtual_hosted_style_request"}
_OF_ACCOUNT = re.compile(r"\.([a-z0-9]+)\.(?:dfs|blob)\.[a-z0-9.]+\Z")
"""Ends of names that hold for one account of Azure."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_TENANT = re.compile(r"https://([\w.-]+)/([\w.-]+)/oauth2/(?:v2\.0/)?token\Z")
_VARIABLES = {
    "oss": {
        "access_key_id": "OSS_ACCESS_KEY_ID",
        "secret_access_key": "OSS_ACCESS_KEY_SECRET",
        "session_token": "OSS_SESSION_TOKEN",
    },
    "obs": {
        "access_key_id": "OBS_ACCESS_KEY_ID",
        "secret_access_key": "OBS_SECRET_ACCESS_KEY",
        "session_token": "OBS_SECURITY_TOKEN",
    },
}
"""Environment variables of the vendors' own tools, for stores of which obstore knows none."""


def family(scheme: str) -> str:
    """The kind of store that a scheme names: s3, gcs, azure, oss, obs, hdfs."""
    return _FAMILIES.get(scheme, scheme)


def option_prefix(kind: str) -> str:
    """What names of options of a kind of store begin with."""
    return _PREFIXES[kind][0]


def concerns(root: str, key: str) -> bool:
    """Whether an option is one of the store of an address: tasks get no credentials of others."""
    scheme, _, rest = root.partition("://")
    kind = family(scheme.lower())
    if is_of_hadoop(key):
        return kind == "hdfs"
    account = _OF_ACCOUNT.search(key.lower()) if kind == "azure" else None
    server = rest.partition("/")[0].partition("@")[2].lower()
    return key.lower().startswith(_PREFIXES[kind]) and (not account or server.startswith(f"{account[1]}."))


def is_of_hadoop(key: str) -> bool:
    """Whether an option is a setting of Hadoop, of any name, or says where settings are, or names the user."""
    return key.startswith("hadoop.") or key in _OF_HADOOP


def is_known(key: str) -> bool:
    """Whether stores have an option of this name here."""
    return is_of_hadoop(key) or _plain_name(key) in _ARGUMENTS


def check_names(options: Iterable[str], others: Iterable[str] = (), kind: str = "storage option") -> None:
    """Raise OptionError for a name that no store knows, with near ones; ``others`` are names that count, too."""
    more = frozenset(others)
    for key in map(str, options):
        name = _plain_name(key)
        if name not in _ARGUMENTS and key not in more and not is_of_hadoop(key):
            prefix = next((p for ps in _PREFIXES.values() for p in ps if name.startswith(p)), "")
            near = [known for known in (*_ARGUMENTS, *_OF_HADOOP, *more) if known.startswith(prefix)]
            hint = suggest(name, near, "there are") or ""
            if more and not prefix and not hint.startswith("did you"):
                hint = f"there are: {', '.join(sorted(more))}, and the options of the storage"
            from difflib import get_close_matches  # only for those who are wrong

            for elsewhere in get_close_matches(name, _ELSEWHERE, 1, 0.9):  # itself, or mistyped
                hint = f"did you mean {_ELSEWHERE[elsewhere]}?"
            # A text that is not like a name may be a value in the wrong place, as of `--option KEY`.
            is_name = prefix or hint.startswith("did you") or "://" in key or _LIKE_A_NAME.fullmatch(key)
            told = visible(redact(key))[:80] if is_name else f"{visible(key[:3])}…"
            raise OptionError(f"unknown {kind} '{told}'", hint=hint)


def client_arguments(root: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of a client from Paimon's option names.
    Raises OptionError: an unknown name, or a value that it can't have."""
    check_names(options)
    kind = family(root.partition("://")[0])
    check_texts({key: value for key, value in options.items() if is_of_hadoop(key)})
    options = {key: value for key, value in options.items() if not is_of_hadoop(key)}
    arguments: dict[str, Any] = {
        argument: os.environ[name] for argument, name in _VARIABLES.get(kind, {}).items() if name in os.environ
    }
    if {"access_key_id", "secret_access_key"} & {_ARGUMENTS[_plain_name(key)] for key in options}:
        arguments = {}
    check_texts({**options, **arguments})
    for key, value in options.items():
        name = _plain_name(key)
        argument = _ARGUMENTS[name]
        if argument not in _NOT_TEXTS:
            _check_text(key, value)
        if argument in ENDPOINTS and "@" in value.rpartition("://")[2].partition("/")[0]:
            raise OptionError(
                f"credentials in the address of {key} are not taken", hint="give them as storage options of their own"
            )
        if argument == "account_key" and not _BASE64.fullmatch(value):
            raise OptionError(
                "azure.account-key is not base64", path=root, hint="copy the whole access key of the storage account"
            )
        if argument == "virtual_hosted_style_request":
            arguments[argument] = not _flag(key, value)
        elif argument == "authentication":
            arguments |= _authentication(key, name, value)
        elif argument == "oauth_endpoint":
            arguments |= _tenant(key, value)
        else:
            arguments[argument] = (
                _flag(key, value) if argument in _FLAGS else _number(key, value) if argument in _NUMBERS else value
            )
    endpoint = None
    if kind == "s3" and ENDPOINTS[0] not in arguments:
        endpoint = configured_endpoint(arguments.get("region"))
    if endpoint is not None:
        arguments[ENDPOINTS[0]] = endpoint
    return _of_vendor(kind, arguments) if kind in _VARIABLES else arguments


def _check_text(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise OptionError(f"storage option {key} must be a text, not a value of type {type(value).__name__}")


def check_texts(given: Mapping[str, object]) -> None:
    """Raise OptionError for a line break, or the like, in what goes into headers of requests: obstore panics then."""
    for name, text in given.items():
        if re.search(UNSEEN, str(text)):
            raise OptionError(
                f"{name} has a line break or another control character",
                hint="look at the end of what was copied or read",
            )


def _plain_name(key: str) -> str:
    """The name that an option is looked up by: in lower case, with the first prefix, of no account."""
    name = key.lower()
    for prefix, *others in _PREFIXES.values():
        for other in others:
            if name.startswith(other):
                name = prefix + name[len(other) :]
    if name.startswith("azure."):
        name = _OF_ACCOUNT.sub("", name)
    return _ALIASES.get(name, name)


def _of_vendor(kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The interface for S3 of a store of Alibaba or Huawei: address and region follow from its own.

    (Sources: "Use AWS SDKs to access OSS" of Alibaba Cloud: ``s3.oss-{region}.aliyuncs.com``, the bucket within the
    host's name; "Regions and Endpoints" of Huawei Cloud: ``obs.{region}.myhuaweicloud.com``.)
    """
    endpoint = arguments.get(ENDPOINTS[0], "")
    if not endpoint or not {"access_key_id", "secret_access_key"} <= arguments.keys():
        names = ", ".join(
            n for n in _ARGUMENTS if n.startswith(_PREFIXES[kind]) and not n.endswith(("token", "region", "timeout"))
        )
        raise OptionError(f"a table on {kind}:// needs its endpoint and keys", hint=f"set {names}")
    scheme, _, host = endpoint.rpartition("://")
    found = re.match(r"(?:s3\.)?oss-([a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com|obs\.([a-z0-9-]+)\.myhuawei", host)
    if found and found[1] and not host.startswith("s3."):
        arguments[ENDPOINTS[0]] = f"{scheme or 'https'}://s3.{host}"
    arguments.setdefault("region", (found[1] or found[2]) if found else "us-east-1")
    numeric = re.fullmatch(r"[\d.]+(:\d+)?|localhost(:\d+)?", host)
    return {"virtual_hosted_style_request": numeric is None, **arguments}


def _authentication(key: str, name: str, value: str) -> dict[str, Any]:
    ways = _AUTHENTICATION[name]
    way = value.rpartition(".")[2].lower()
    if way not in ways:
        raise OptionError(f"storage option {key} can't be {value!r:.80}", hint=f"supported are {', '.join(ways)}")
    return ways[way]


def _tenant(key: str, value: str) -> dict[str, str]:
    found = _TENANT.match(value)
    if found is None:
        raise OptionError(
            f"storage option {key} must be the address of a token of Microsoft Entra",
            hint="https://login.microsoftonline.com/TENANT/oauth2/token; a managed identity has none",
        )
    usual = {} if found[1] == "login.microsoftonline.com" else {"authority_host": f"https://{found[1]}"}
    return {"tenant_id": found[2], **usual}


def _flag(key: str, value: str) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise OptionError(f"storage option {key} must be true or false")
    return str(value).lower() == "true"


def _number(key: str, value: str) -> int:
    number = whole_number(str(value))
    if number is None or number < 1:
        raise OptionError(f"storage option {key} must be a whole number, 1 at least")
    return number
