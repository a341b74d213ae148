"""Credentials, region and endpoint by the shared configuration files of AWS (``~/.aws``), which obstore does not read,
and by the environment. Keys of roles, SSO and programs come from obstore's providers, which need boto3.

Files and names are those of the "AWS SDKs and Tools Reference Guide", "Shared config and credentials files" and
"Service-specific endpoints".
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import raise_alone
from paimon_pyds.errors import OptionError

CredentialProvider = Callable[[], dict[str, Any]]
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

    def credentials(self) -> CredentialProvider | None:
        """What obstore calls for keys, now and when they expire; None where the profile has none.
        Raises OptionError: boto3, which they need, is not installed, or gives no keys."""
        if self._has_keys:
            return self._stored_keys
        return None if _BY_REQUEST.isdisjoint(self.settings) else _by_boto3(self._provided_keys, f"profile {self.name}")

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

    def _provided_keys(self) -> dict[str, Any]:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider

        # A session reads the files once.
        return {**Boto3CredentialProvider(boto3.Session(profile_name=self.name), ttl=_REREAD)()}


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


def role_credentials(role: str, arguments: Mapping[str, Any]) -> CredentialProvider:
    """What obstore calls for the keys of a role, which the keys of options, environment or profile may take on.

    Args:
        role: its ARN.
        arguments: of `paimon_pyds.storage.store_options.client_arguments`.

    Raises:
        OptionError: boto3 is not installed, or the role gives no keys.
    """

    def fetch() -> dict[str, Any]:
        import boto3
        from obstore.auth.boto3 import StsCredentialProvider

        names = ("access_key_id", "secret_access_key", "session_token")
        own = {f"aws_{name}": arguments[name] for name in names if name in arguments}
        session = boto3.Session(**own, region_name=arguments.get("region"))
        keys: dict[str, Any] = {**StsCredentialProvider(session, RoleArn=role, RoleSessionName="paimon-pyds")()}
        # obstore takes no other zone than this one, and boto3 has its own
        return keys | {"expires_at": keys["expires_at"].astimezone(UTC)}

    return _by_boto3(fetch, f"role {role}")


def _by_boto3(fetch: CredentialProvider, whose: str) -> CredentialProvider:
    """The same, whose errors are ours; it is tried at once, as obstore would repeat what an error of it says."""
    try:
        import obstore.auth.boto3  # noqa: F401
    except ImportError:
        raise_alone(
            OptionError(f"keys of the AWS {whose} need boto3", hint="pip install 'paimon-pyds[aws]', or give keys")
        )
    from botocore.exceptions import BotoCoreError, ClientError

    first = []
    try:
        first.append(fetch())
    except (BotoCoreError, ClientError, ValueError) as error:
        raise_alone(OptionError(f"no keys of the AWS {whose}: {error}", hint="sign in again: aws sso login"))
    return lambda: first.pop() if first else fetch()
