"""What hdfs-native raises, as the errors of a storage that say what to do."""

from __future__ import annotations

import errno
import re
from collections.abc import Collection

from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import StorageError
from paimon_pyds.storage.faults import missing_file

_FROM_SERVER = re.compile(r'\w*RPCError\("([\w.$]+)", "(.*)', re.S)
_FROM_CLIENT = re.compile(r'[A-Z]\w+\((?:GssMajorCodes.*?}, \d+, )?"(.*)', re.S)
_NUMBER = re.compile(r"\s*\(os error \d+\)?")
_STACK = re.compile(r"\\n|\n")
_REFUSED = {
    "AccessControlException": (
        errno.EACCES,
        "check the permissions of this path for this user, whom HADOOP_USER_NAME, hdfs.user or Kerberos name",
    ),
    "NSQuotaExceededException": (
        errno.EDQUOT,
        "remove files, or have the quota of names raised: hdfs dfsadmin -setQuota; nothing was published",
    ),
    "DSQuotaExceededException": (
        errno.EDQUOT,
        "remove files, or have the quota of bytes raised: hdfs dfsadmin -setSpaceQuota; nothing was published",
    ),
    "SafeModeException": (
        errno.EROFS,
        "wait until the name node has left safe mode (hdfs dfsadmin -safemode get), then try again; nothing was "
        "published",
    ),
    "StandbyException": (
        errno.EAGAIN,
        "no name node is active: look at hdfs haadmin -getAllServiceState, then try again",
    ),
    "ParentNotDirectoryException": (errno.ENOTDIR, "a file is in the way where a directory is needed"),
    "PathIsNotEmptyDirectoryException": (errno.ENOTEMPTY, "the directory holds something"),
    "PathComponentTooLongException": (errno.ENAMETOOLONG, "a shorter table path or partition value helps"),
}
"""The number and the hint of exceptions of a name node."""
_KERBEROS = re.compile(r"GSSAPI|SASL|Sasl|gssapi|krb5|Kerberos|KERBEROS")
_NO_DATA = re.compile(r"could only be written to|All nodes failed|BlocksNotFound|DataTransfer|ChecksumError|data ?node")


def is_refusal(error: BaseException) -> bool:
    """Whether a name node refused a call, which had no effect then, and would have none if it was made again."""
    name, _ = _from_server(error)
    return name in _REFUSED and name != "StandbyException"


def _from_server(error: BaseException) -> tuple[str, str]:
    """The class and the text of a name node's exception; both are empty for other errors."""
    match = _FROM_SERVER.match(str(error)) if isinstance(error, RuntimeError) else None
    return (match[1].rpartition(".")[2], match[2]) if match else ("", "")


def hdfs_error(error: BaseException, action: str, path: str, secrets: Collection[str] = ()) -> StorageError:
    """A StorageError of a few words for ``action`` ("write", "list", …) on ``path``; ``secrets`` are blanked."""
    if isinstance(error, StorageError):
        return error
    path = redact(path, secrets)
    if isinstance(error, FileNotFoundError):
        return missing_file(action, path)
    name, text = _from_server(error)
    if not name:
        own = _FROM_CLIENT.match(str(error))
        text = own[1] if own else str(error)
    text = _STACK.split(text)[0].rstrip('")').replace('\\"', '"').replace("\\'", "'")
    reason = redact(_NUMBER.sub("", text), secrets) or type(error).__name__
    number, hint = _REFUSED.get(name, (0, ""))
    if number == errno.EACCES and reason.endswith("(is not a directory"):  # its parenthesis went with the quotes
        number, hint = _REFUSED["ParentNotDirectoryException"]
        reason += ")"
    if isinstance(error, FileExistsError):
        number, hint = errno.EEXIST, "another writer made it meanwhile"
    elif isinstance(error, IsADirectoryError):
        number, hint = errno.EISDIR, "a directory is in the way where a file is needed"
    elif not number and _KERBEROS.search(str(error)):
        hint = (
            "HDFS requires Kerberos: it takes the library libgssapi_krb5 (Debian: libgssapi-krb5-2, Red Hat: krb5-libs)"
            " and a ticket (kinit), or security.kerberos.login.principal and security.kerberos.login.keytab"
        )
    elif not number and _NO_DATA.search(str(error)):
        hint = "look at the data nodes (hdfs dfsadmin -report) and the file (hdfs fsck PATH), then try again"
    elif isinstance(error, OSError):
        number = errno.ETIMEDOUT
        hint = "check the address of the name node, hadoop-conf-dir and the network, then try again"
        reason = f"the name node can't be reached: {reason}"
    fault = StorageError(f"can't {action}: {reason}", path=path, hint=hint or "check the storage options and the path")
    fault.errno = number or None
    return fault
