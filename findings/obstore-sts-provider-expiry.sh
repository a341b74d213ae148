#!/usr/bin/env bash
# One would guess: StsCredentialProvider, which obstore ships for keys of AWS roles, gives keys that its S3Store takes.
# What happens: every request fails with "expected datetime.timezone.utc". The provider hands on the expiry as boto3 has
#   it, in a zone of dateutil, and obstore takes Python's own UTC alone, whatever the instant is.
# Why it matters: tables behind an assumed role can't be opened until a program converts the expiry itself.
set -euo pipefail
OBSTORE=0.12.1 BOTO3=1.44.8 MOTO=5.2.5
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "obstore==$OBSTORE" "boto3==$BOTO3" "moto[server]==$MOTO"
cat >"$work/ask.py" <<'PY'
import os
import sys
from datetime import timezone

import boto3
import obstore
from moto.server import ThreadedMotoServer
from obstore.auth.boto3 import StsCredentialProvider
from obstore.store import S3Store

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
address = f"http://{host}:{port}"
os.environ |= {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
boto3.client("s3", "us-east-1").create_bucket(Bucket="bucket")
provider = StsCredentialProvider(
    boto3.Session(region_name="us-east-1"), RoleArn="arn:aws:iam::123456789012:role/reader", RoleSessionName="me"
)


def converted() -> dict:
    keys = dict(provider())
    return keys | {"expires_at": keys["expires_at"].astimezone(timezone.utc)}


def outcome(credentials) -> str:
    store = S3Store(
        "bucket",
        config={"aws_endpoint_url_s3": address, "region": "us-east-1"},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
        credential_provider=credentials,
    )
    try:
        obstore.put(store, "key", b"1")
        return "works"
    except Exception as error:
        return str(error).partition("\n")[0]


print("Python", sys.version.split()[0], "obstore", obstore.__version__, "boto3", boto3.__version__)
as_it_is, as_utc = outcome(provider), outcome(converted)
print("expiry:", repr(provider()["expires_at"]))
print("the provider as it is:", as_it_is)
print("its expiry in datetime.timezone.utc:", as_utc)
server.stop()
sys.exit(not ("expected datetime.timezone.utc" in as_it_is and as_utc == "works"))
PY
"$work/venv/bin/python" "$work/ask.py"
