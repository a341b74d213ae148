"""Credentials and region of the shared configuration files of AWS (``~/.aws``), which obstore does not read.

Files and names are those of the "AWS SDKs and Tools Reference Guide", "Shared config and credentials files".
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from paimon_pyds.errors import OptionError
from paimon_pyds.records import dataclass

_BY_REQUEST = frozenset({"role_arn", "credential_process", "sso_session", "sso_start_url", "login_session"})
"""Settings of profiles whose keys come from a service or a program."""
_REREAD = timedelta(minutes=15)
"""Tools put new temporary keys into the files, and a process may live longer than these."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the files say of one profile; nothing where there are none."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def region(self) -> str | None:
        return self.settings.get("region")

    @property
    def needs_boto3(self) -> bool:
        """Whether the keys are not in the files, but come from what they name."""
        return not self._has_keys and not _BY_REQUEST.isdisjoint(self.settings)

    @property
    def readable(self) -> bool:
        """Whether keys that the profile has can be had on this machine."""
        return not self.needs_boto3 or find_spec("boto3") is not None

    def credentials(self) -> Callable[[], dict[str, Any]] | None:
        """What obstore calls for keys, now and when they expire; None where the profile has none."""
        if self._has_keys:
            return self._stored_keys
        return _of_boto3(self.name) if self.needs_boto3 else None

    @property
    def _has_keys(self) -> bool:
        return {"aws_access_key_id", "aws_secret_access_key"} <= self.settings.keys()

    def _stored_keys(self) -> dict[str, Any]:
        settings = current_profile(self.name).settings
        return {
            "access_key_id": settings["aws_access_key_id"],
            "secret_access_key": settings["aws_secret_access_key"],
            "token": settings.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + _REREAD,
        }


def current_profile(name: str | None = None) -> Profile:
    """The profile that ``AWS_PROFILE`` names, or the default one.
    Raises OptionError: ``AWS_PROFILE`` names none, or a file is malformed."""
    chosen = name or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    name = chosen or "default"
    settings: dict[str, str] = {}
    found = False
    for variable, file, sections in (
        ("AWS_CONFIG_FILE", "config", (f"profile {name}", name if name == "default" else "")),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", (name,)),
    ):
        path = os.path.expanduser(os.environ.get(variable) or f"~/.aws/{file}")
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            raise OptionError("can't read this file of AWS profiles", path=path, hint="correct or remove it") from None
        for section in sections:
            if parser.has_section(section):
                found = True
                settings.update(parser.items(section))
    if chosen and not found:
        raise OptionError(f"AWS_PROFILE names no profile: {name}", hint="see ~/.aws/config and ~/.aws/credentials")
    return Profile(name, settings)


def _of_boto3(name: str) -> Callable[[], dict[str, Any]]:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        keys = boto3.Session(profile_name=name).get_credentials()
    except BotoCoreError as error:
        raise OptionError(f"no keys of the AWS profile {name}: {error}", hint="sign in again: aws sso login") from None
    if keys is None:
        raise OptionError(f"no keys of the AWS profile {name}", hint="look at it with: aws configure list")

    def fetch() -> dict[str, Any]:
        frozen = keys.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _REREAD,
        }

    return fetch
