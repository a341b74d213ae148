#!/usr/bin/env bash
# One would guess: an endpoint that a program gives to obstore's S3Store wins over one in the environment, as in boto3.
# What happens: AWS_ENDPOINT_URL_S3 wins over endpoint=…, while AWS_ENDPOINT_URL loses against it. Only the name
#   aws_endpoint_url_s3, given as an argument, wins over the variable.
# Why it matters: a program that names a test server writes to the store of the environment, perhaps the real one.
set -euo pipefail
OBSTORE=0.12.1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "obstore==$OBSTORE"
cat >"$work/ask.py" <<'PY'
import os
import re
import sys

import obstore
from obstore.store import S3Store

ARGUMENT, VARIABLE = "127.0.0.1:8", "127.0.0.1:9"  # nobody listens; the error names the address that was asked


def asked(argument: str, variable: str) -> str:
    os.environ[variable] = f"http://{VARIABLE}"
    store = S3Store(
        "bucket",
        config={argument: f"http://{ARGUMENT}", "access_key_id": "a", "secret_access_key": "b"},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    try:
        obstore.get(store, "key")
    except Exception as error:
        found = re.search(r"GET http://([\d.:]+)/", str(error))[1]
    del os.environ[variable]
    return {ARGUMENT: "the argument", VARIABLE: "the variable"}[found]


print("Python", sys.version.split()[0], "obstore", obstore.__version__)
expected = {
    ("endpoint", "AWS_ENDPOINT_URL"): "the argument",
    ("endpoint", "AWS_ENDPOINT_URL_S3"): "the variable",
    ("aws_endpoint_url_s3", "AWS_ENDPOINT_URL_S3"): "the argument",
}
found = {case: asked(*case) for case in expected}
for (argument, variable), winner in found.items():
    print(f"argument {argument}, variable {variable}: {winner} wins")
sys.exit(found != expected)
PY
"$work/venv/bin/python" "$work/ask.py"
