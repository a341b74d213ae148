"""A canary: a secret put into every place that takes one, and looked for in everything that people or files get."""

from __future__ import annotations

import pprint
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from paimon_pyds.base.secrets import names_secret
from paimon_pyds.storage.store_options import _ALIASES, _ARGUMENTS, _PREFIXES

CANARY = "cAnArY/7+531="
"""As keys of AWS and Azure look: with the signs of base64."""


def _names_of_secrets() -> list[str]:
    """Each name of an option of a store whose value is a secret, in every spelling that is taken."""
    spellings = {name: _ARGUMENTS[name] for name in _ARGUMENTS} | {a: _ARGUMENTS[n] for a, n in _ALIASES.items()}
    secret = {argument for name, argument in spellings.items() if names_secret(name)}
    found = []
    for name, argument in spellings.items():
        first, *others = next(prefixes for prefixes in _PREFIXES.values() if name.startswith(prefixes[0]))
        if argument in secret:
            found += [name, *(other + name.removeprefix(first) for other in others)]
    return [*found, *(f"{name}.acc.dfs.core.windows.net" for name in found if name.startswith("fs.azure."))]


STORAGE_OPTIONS = dict.fromkeys(_names_of_secrets(), CANARY)
"""Every storage option that is a secret."""

_OF_TABLES = (
    "s3.secret-key", "s3.access-key", "fs.oss.accessKeyId", "fs.oss.accessKeySecret", "fs.azure.account.key.acc",
    "fs.azure.sas.c.acc", "azure.sas-token", "password", "jdbc.PASSWORD", "dlf.token", "dlf.access_key_id",
    "fs.s3a.encryption.key", "my.api.key", "rest.authorization", "private-key", "commit.callback.x.token",
    "s3.server-side-encryption-customer-key", "hmac.key", "signing-key", "fs.azure.sharedKey",
    "azure.connection-string", "connectionString", "rest.jwt",
)  # fmt: skip
TABLE_OPTIONS = dict.fromkeys(_OF_TABLES, CANARY) | {
    "path": f"s3://key:{CANARY}@bucket/t",
    "data-file.external-paths": f"s3://bucket/x?X-Amz-Signature={CANARY}",
    "partition.mark-done-action.http.url": f"https://me:{CANARY}@host/done",
    "url": f"https://acc.blob.core.windows.net/c?sv=1&sig={CANARY}&se=2",
}
"""Options of a table that are secrets, or hold one."""

ADDRESSES = (
    f"s3://key:{CANARY}@bucket/t",
    f"s3://{CANARY.replace('/', '')}@bucket/t",
    f"gs://key:{CANARY}@bucket/t",
    f"hdfs://me:{CANARY}@host/t",
    f"abfss://container:{CANARY}@acc.dfs.core.windows.net/t",
    f"abfss://c@acc.dfs.core.windows.net/t?sv=1&sig={CANARY}",
    f"s3://bucket/t?X-Amz-Credential={CANARY}&X-Amz-Security-Token={CANARY}&X-Amz-Signature={CANARY}",
    f"https://bucket.s3.amazonaws.com/t?AWSAccessKeyId={CANARY}&Signature={CANARY}&Expires=1",
    f"https://storage.googleapis.com/b/t?X-Goog-Credential={CANARY}&X-Goog-Signature={CANARY}",
    f"https://acc.blob.core.windows.net/c/t?sv=2024&SIG={CANARY}",
    f"/nowhere/t?sig={CANARY}",
    f"file:///nowhere/t?token={CANARY}",
    f"oss://key:{CANARY}@bucket/t",
    f"https://host/t?jwt={CANARY}",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={CANARY};EndpointSuffix=core.windows.net",
)


def is_clean(text: str | bytes) -> bool:
    """Whether the canary is nowhere in it."""
    parts = [part for part in CANARY.replace("=", "").replace("+", "/").split("/") if len(part) > 3]
    found = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return not any(part in found for part in parts)


def texts_of(*things: Any) -> str:
    """All that people get to see of these objects: printed, shown by a debugger, and by a notebook."""
    return "\n".join(text for thing in things for text in _texts(thing))


def _texts(thing: Any) -> Iterable[str]:
    yield repr(thing)
    yield str(thing)
    yield f"{thing}"
    yield pprint.pformat(thing)
    if hasattr(thing, "_repr_html_"):
        yield thing._repr_html_()


def failure(call: Callable[[], Any]) -> Exception:
    """What a call raises. AssertionError when it does not."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any
        return error
    raise AssertionError("nothing was raised")


def trace_of(error: BaseException) -> str:
    """The whole trace of an error as Python prints it, and all texts of the errors that it holds: causes, and those
    that were handled when it was raised, which debuggers and loggers show though ``from None`` hides them."""
    found = traceback.format_exception(error)
    for held in _held(error):
        found += [repr(held), str(held), repr(held.args), repr(vars(held))]
        found += [
            repr(getattr(held, name, None)) for name in ("filename", "strerror", "doc", "object", "url", "reason")
        ]
    return "\n".join(found)


def _held(error: BaseException) -> list[BaseException]:
    found, waiting = [error], [error]
    while waiting:
        held = waiting.pop()
        for other in (held.__cause__, held.__context__, *held.args, *vars(held).values()):
            if isinstance(other, BaseException) and not any(other is known for known in found):
                found.append(other)
                waiting.append(other)
    return found


def bytes_of_files(directory: str | Path) -> bytes:
    """Names and contents of all files below a directory."""
    files = sorted(p for p in Path(directory).rglob("*") if p.is_file())
    return b"\n".join(str(p.relative_to(directory)).encode() + b"\n" + p.read_bytes() for p in files)
