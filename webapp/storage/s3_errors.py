"""What an error of obstore means, in words. Its own text quotes the store's answer, which may quote credentials."""

from __future__ import annotations

import re

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from webapp.storage.interface import StorageUnusable

CODE = re.compile(r"<Code>(\w{1,60})</Code>")
INSTANCE_METADATA = "169.254."
STATUS = re.compile(r"status code: (\d{3})")
NEEDED = "allow s3:PutObject, GetObject, DeleteObject, ListBucket and AbortMultipartUpload"
WAIT = "check the endpoint (AWS_ENDPOINT_URL) and the network"
URL = "make it, or correct EXPORTDESK_STORAGE_URL"
ELSEWHERE = ("the bucket {bucket} is in another region", "set AWS_REGION to the bucket's region")

BY_CODE = {
    "NoSuchBucket": ("there is no bucket {bucket}", URL),
    "AccessDenied": ("access to the bucket {bucket} is denied", NEEDED),
    "InvalidAccessKeyId": ("the store does not know the access key", "check AWS_ACCESS_KEY_ID"),
    "SignatureDoesNotMatch": ("the store refuses the secret key", "check AWS_SECRET_ACCESS_KEY"),
    "ExpiredToken": ("the credentials have expired", "renew AWS_SESSION_TOKEN and its keys"),
    "RequestTimeTooSkewed": ("this machine's clock is off", "run NTP"),
    "PermanentRedirect": ELSEWHERE,
    "AuthorizationHeaderMalformed": ELSEWHERE,
}


def unusable(error: Exception, bucket: str) -> StorageUnusable:
    """The error as a sentence and its mend, without anything that could be secret."""
    problem, mend = _explained(error)
    return StorageUnusable(problem.format(bucket=bucket), mend)


def _explained(error: Exception) -> tuple[str, str]:
    text = str(error)
    if code := CODE.search(text):
        return BY_CODE.get(code[1], (f"the store answers {code[1]}", WAIT))
    if isinstance(error, FileNotFoundError):
        return BY_CODE["NoSuchBucket"]
    if INSTANCE_METADATA in text:
        return "there are no credentials", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
    if "incorrectly configured region" in text:
        return ELSEWHERE
    if "builder error" in text:
        return "the endpoint is http, not https", "set AWS_ALLOW_HTTP=true if that is meant"
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return "access to the bucket {bucket} is denied", f"check AWS_ACCESS_KEY_ID and its secret; {NEEDED}"
    if status := STATUS.search(text):
        return f"the store answers {status[1]}", WAIT
    return "the store of the bucket {bucket} cannot be reached", WAIT
