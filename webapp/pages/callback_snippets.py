"""Ready pieces of code that verify a callback, in the languages that receivers are most often written in. Pure.

The secret is taken from the environment, where it belongs: `CALLBACK_SECRET`, and `CALLBACK_KEY` for encrypted data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snippet:
    """`install` is the command that fetches what the code imports."""

    name: str
    title: str
    install: str
    code: str


PYTHON = '''\
import os

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["CALLBACK_SECRET"])


def receive(headers: dict[str, str], body: bytes) -> dict | None:
    """The message, or None for what we did not send or is older than five minutes.

    `body` is the raw request body, before anything has parsed it.
    """
    try:
        return webhook.verify(body, dict(headers))
    except WebhookVerificationError:
        return None  # answer 401
'''

NODE = """\
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.CALLBACK_SECRET);

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const message = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
    response.writeHead(204).end();
    console.log(message.type, message.data.id);
  } catch {
    response.writeHead(401).end();
  }
}).listen(8000);
"""

GO = """\
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("CALLBACK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || webhook.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		log.Printf("%s", body)
	})
	log.Fatal(http.ListenAndServe(":8000", nil))
}
"""

SHELL = """\
#!/bin/sh
# verify.sh WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body
# Ends with 0 if we sent it within the last five minutes.
key=$(printf %s "${CALLBACK_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')
expected=$({ printf '%s.%s.' "$1" "$2"; cat; } |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
case $2 in ''|*[!0-9]*) echo "no timestamp"; exit 1 ;; esac
age=$(($(date +%s) - $2))
if [ "$age" -gt 300 ] || [ "$age" -lt -300 ]; then echo "too old or too new"; exit 1; fi
for given in $3; do
  if [ "$given" = "v1,$expected" ]; then echo "verified"; exit 0; fi
done
echo "not ours"
exit 1
"""

DECRYPT = '''\
import base64
import json
import os

from joserfc import jwe
from joserfc.jwk import OctKey

key = OctKey.import_key(base64.urlsafe_b64decode(os.environ["CALLBACK_KEY"] + "=="))


def decrypted(message: dict) -> dict:
    """A message that was verified, with its `data` in the clear."""
    opened = jwe.decrypt_compact(message["data"], key, algorithms=["dir", "A256GCM"])
    return message | {"data": json.loads(opened.plaintext)}
'''

SNIPPETS = (
    Snippet("python", "Python", "pip install standardwebhooks", PYTHON),
    Snippet("node", "Node", "npm install standardwebhooks", NODE),
    Snippet("go", "Go", "go get github.com/standard-webhooks/standard-webhooks/libraries/go", GO),
    Snippet("shell", "Shell", "", SHELL),
)
DECRYPTING = Snippet("decrypt", "Decrypting", "pip install joserfc", DECRYPT)


def snippets(*, is_encrypted: bool) -> Sequence[Snippet]:
    return (*SNIPPETS, DECRYPTING) if is_encrypted else SNIPPETS
