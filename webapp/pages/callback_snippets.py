"""Ready pieces of code that verify a callback, in the languages that receivers are most often written in. Pure.

The secret is taken from the environment, where it belongs: `CALLBACK_SECRET`, and `CALLBACK_KEY` for encrypted data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webapp.domain.sentences import say


@dataclass(frozen=True, slots=True)
class Snippet:
    """`install` is the command that fetches what the code imports."""

    name: str
    title: str
    install: str
    code: str


PYTHON = '''\
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["CALLBACK_SECRET"])


def receive(headers: dict[str, str], body: bytes) -> dict | None:
    """The message, or None for what we did not send or is older than five minutes.

    `body` is the raw request body, before anything has parsed it.
    """
    try:
        return webhook.verify(body, dict(headers))
    except WebhookVerificationError:
        return None


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        message = receive(self.headers, self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204 if message else 401)
        self.end_headers()
        if message:
            print(message["type"], message["data"], flush=True)


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
'''

NODE = """\
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.CALLBACK_SECRET.replace(/^whsec_/, ""), "base64");

function isOurs(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": given } = headers;
  if (!id || !given || !(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return false;
  const expected = createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest();
  return given.split(" ").some((each) => {
    const sum = Buffer.from(each.replace(/^v1,/, ""), "base64");
    return each.startsWith("v1,") && sum.length === expected.length && timingSafeEqual(sum, expected);
  });
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (!isOurs(request.headers, body)) return response.writeHead(401).end();
  response.writeHead(204).end();
  const { type, data } = JSON.parse(body);
  console.log(type, data.id);
}).listen(Number(process.env.PORT ?? 9000));
"""

GO = """\
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func isOurs(key []byte, head http.Header, body []byte) bool {
	id, at := head.Get("webhook-id"), head.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(id + "." + at + "."))
	sum.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	for _, given := range strings.Fields(head.Get("webhook-signature")) {
		if hmac.Equal([]byte(given), []byte(expected)) {
			return true
		}
	}
	return false
}

func main() {
	secret := strings.TrimPrefix(os.Getenv("CALLBACK_SECRET"), "whsec_")
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || secret == "" {
		log.Fatal("CALLBACK_SECRET is not a secret of a callback")
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !isOurs(key, r.Header, body) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		log.Printf("%s", body)
	})
	port := os.Getenv("PORT")
	if port == "" {
		port = "9000"
	}
	log.Fatal(http.ListenAndServe(":"+port, nil))
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
    Snippet("node", "Node", "", NODE),
    Snippet("go", "Go", "", GO),
    Snippet("shell", "Shell", "", SHELL),
)
DECRYPTING = Snippet("decrypt", say("Decrypting"), "pip install joserfc", DECRYPT)


def snippets(*, is_encrypted: bool) -> Sequence[Snippet]:
    return (*SNIPPETS, DECRYPTING) if is_encrypted else SNIPPETS
