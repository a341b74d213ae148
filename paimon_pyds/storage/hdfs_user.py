"""As whom this process acts on HDFS, and the rights of what it makes there."""

from __future__ import annotations

import os

from paimon_pyds.errors import OptionError

_user: str | None = None
"""As whom this process acts, once it has a client."""


def take_user(name: str | None) -> None:
    """Let hdfs-native act as this user, whom it takes from the environment of the process at each connection: one that
    came later would be that of all clients, once they connect again. Raises OptionError."""
    global _user
    wanted = name or os.environ.get("HADOOP_USER_NAME") or _user_of_system()
    if _user is not None and wanted != _user:
        source = "HADOOP_USER_NAME" if name is None else "hdfs.user"
        raise OptionError(
            f"{source} is {wanted!r:.80}, and this process acts as {_user!r:.80} on HDFS already",
            hint="one process has one user: set HADOOP_USER_NAME before its first table, or use a process of its own",
        )
    _user = wanted
    if name is not None:
        os.environ["HADOOP_USER_NAME"] = name


def _user_of_system() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # as in containers that run under any number
        return str(os.geteuid())


def umask_of(text: str) -> int:
    """The bits that new files lack, of ``022`` or ``u=rwx,g=rx,o=``. Raises OptionError."""
    try:
        if "=" not in text:
            return int(text, 8) & 0o777
        parts = dict(part.strip().split("=") for part in text.split(","))
        bits = {who: sum({"r": 4, "w": 2, "x": 1}[right] for right in rights) for who, rights in parts.items()}
        return 0o777 & ~(bits["u"] << 6 | bits["g"] << 3 | bits["o"])
    except (KeyError, ValueError):
        raise OptionError(f"fs.permissions.umask-mode can't be {text!r:.80}", hint="such as 022") from None
