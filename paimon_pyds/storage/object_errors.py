"""What obstore says of a request that failed, as a few words and a hint.

obstore names the request with all its parameters, how long it took, and what the server answered, which may repeat
headers: of all that, people need the status, the code and the sentence.
"""

from __future__ import annotations

import re

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
_IDENTITY = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
"""Where clients look for the identity of a machine in a cloud, when nothing else gives credentials."""
_CREDENTIALS = {
    "s3": "give s3.access-key and s3.secret-key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; a public bucket "
    "takes s3.anonymous=true",
    "gcs": "give fs.gs.auth.service.account.json.keyfile or gs.access-token, or set GOOGLE_APPLICATION_CREDENTIALS; a "
    "public bucket takes gs.anonymous=true",
    "azure": "give azure.account-key, azure.sas-token, or azure.tenant-id, azure.client-id and azure.client-secret; or "
    "set AZURE_STORAGE_ACCOUNT_KEY",
}
_STATUS = re.compile(r"status code: (\d{3}[^:<]*)")
_CODE = re.compile(r"<Code>([^<]{1,200})</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]{1,300})")
_ADDRESS = re.compile(r"Error performing [A-Z]+ (\w+://[^/?\s]+)")
_FRAME = re.compile(r"^Generic \w+ error: (?:Error performing [a-z_ ]+ request: |GCP credential error: )?")


def is_bucket_missing(text: str) -> bool:
    """Whether a store says that it has no such bucket or container."""
    return any(sign in text for sign in _NO_BUCKET)


def lacks_credentials(text: str) -> bool:
    """Whether a client had no credentials, and the cloud gave it no identity of this machine."""
    return any(place in text for place in _IDENTITY)


def is_unanswered(text: str) -> bool:
    """Whether a request got no answer at all."""
    return "HTTP error" in text and "status code" not in text


def reason_of(text: str) -> str:
    """The reason of a failure, on one line."""
    first = text.partition("\n")[0]
    status, code, message, address = (
        match[1].strip() if (match := pattern.search(text)) else "" for pattern in (_STATUS, _CODE, _MESSAGE, _ADDRESS)
    )
    if status:
        said = ": ".join(filter(None, (code, message)))
        return f"status {status}{f', {said}' if said else ''}"
    return f"no answer from {address}" if address and is_unanswered(text) else _FRAME.sub("", first)


def hint_of(text: str, kind: str) -> str:
    """What to do. ``kind``: that of the store, as `store_options.family` has it."""
    if lacks_credentials(text):
        return _CREDENTIALS.get(kind, "give the access keys")
    if any(sign in text for sign in ("RequestTimeTooSkewed", "not yet valid")):
        return "the clock of this machine is wrong: set it"
    if any(sign in text for sign in ("code: 301", "redirect", "AuthorizationHeaderMalformed")):
        return "the bucket is in another region: set s3.region"
    signs = ("code: 403", "code: 401", "InvalidAccessKeyId", "SignatureDoesNotMatch", "credential")
    if any(sign in text for sign in signs):
        return f"check the credentials, and what they may do in this {bucket_word(kind)}"
    return "check the storage options and the network, then try again"


def bucket_word(kind: str) -> str:
    """What a store of this kind calls a bucket."""
    return "container" if kind == "azure" else "bucket"
