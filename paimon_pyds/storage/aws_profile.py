"""Credentials, region and endpoint by the shared configuration files of AWS (``~/.aws``), which obstore does not read,
and by the environment.

Files and names are those of the "AWS SDKs and Tools Reference Guide", "Shared config and credentials files" and
"Service-specific endpoints".
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import raise_alone
from paimon_pyds.errors import OptionError

_BY_REQUEST = frozenset({"role_arn", "credential_process", "sso_session", "sso_start_url", "login_session"})
"""Settings of profiles whose keys come from a service or a program."""
_REREAD = timedelta(minutes=15)
"""Tools put new temporary keys into the files, and a process may live longer than these."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name an endpoint, the first that is set counts; the last is one of obstore."""
_IGNORE_VARIABLE, _IGNORE_SETTING = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls"


@dataclass(frozen=True, slots=True)
class Profile:
    """What the files say of one profile; empty without files. ``of_s3``: its settings for S3 alone."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    of_s3: Mapping[str, str] = field(default_factory=dict, repr=False)

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
    of_s3: dict[str, str] = {}
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
            raise_alone(OptionError("can't read this file of AWS profiles", path=path, hint="correct or remove it"))
        for section in sections:
            if parser.has_section(section):
                found = True
                settings.update(parser.items(section))
        if file == "config" and "services" in settings:
            lines = parser.get(f"services {settings['services']}", "s3", fallback="").splitlines()
            of_s3 = {key.strip().lower(): text.strip() for key, _, text in (line.partition("=") for line in lines)}
    if chosen and not found:
        raise OptionError(f"AWS_PROFILE names no profile: {name}", hint="see ~/.aws/config and ~/.aws/credentials")
    return Profile(name, settings, of_s3)


def configured_endpoint(region: str | None) -> str | None:
    """The endpoint of S3 that the environment or the profile names; None where neither does.

    Where the names in the environment are not to be used, it is Amazon's own, as clients would use them.

    ``region``: of an option, for Amazon's own; else that of the environment, or of the profile.
    Raises OptionError: as `current_profile`.
    """
    profile = current_profile()
    ignored = os.environ.get(_IGNORE_VARIABLE) or profile.settings.get(_IGNORE_SETTING, "")
    named = [os.environ[variable] for variable in _ENDPOINTS if variable in os.environ]
    configured = [*named, profile.of_s3.get("endpoint_url"), profile.settings.get("endpoint_url")]
    if ignored.lower() != "true" and (found := next(filter(None, configured), None)):
        return found.rstrip("/")
    if not named:
        return None
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or profile.region
    return f"https://s3.{region or 'us-east-1'}.amazonaws.com"


def _of_boto3(name: str) -> Callable[[], dict[str, Any]]:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        keys = boto3.Session(profile_name=name).get_credentials()
    except BotoCoreError as error:
        raise_alone(OptionError(f"no keys of the AWS profile {name}: {error}", hint="sign in again: aws sso login"))
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
