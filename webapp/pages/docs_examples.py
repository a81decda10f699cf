"""The examples of the docs page. They follow on from each other: an export is ordered, followed, and downloaded. Pure.

A test takes them out of the page and runs them, the shell's in bash and the client in Node.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

_START = """\
export DESK={desk}
# Paste the token and press Enter: so it is not in your shell's history.
read -rs TOKEN && export TOKEN
AUTH="Authorization: Bearer $TOKEN"
"""

_ORDER = """\
EXPORT=$(curl -sS -o order.json -D - -H "$AUTH" \\
  -H 'Content-Type: application/json' -d '{{"dataset": "{dataset}", "format": "csv"}}' "$DESK/exports" |
  tr -d '\\r' | awk 'tolower($1) == "location:" {{ print $2 }}')
cat order.json
"""

POLL = """\
rm -f tag.txt head.txt export.json
while :; do
  curl -sS --retry 8 --retry-connrefused -H "$AUTH" --etag-compare tag.txt --etag-save tag.txt \\
    -D head.txt -o export.json "$EXPORT"
  WAIT=$(tr -d '\\r' < head.txt | awk 'tolower($1) == "retry-after:" { print $2 }')
  [ -n "$WAIT" ] || break
  sleep "$WAIT"
done
cat export.json
"""

WAIT = """\
curl -sS -H "$AUTH" "$EXPORT?wait=20"
"""

STREAM = """\
curl -sSN -H "$AUTH" -H 'Accept: text/event-stream' "$EXPORT/events" | tee events.txt
"""

RESUME = """\
# As if the connection had broken after the first event:
LAST=$(tr -d '\\r' < events.txt | sed -n 's/^id: //p' | head -n 1)
curl -sSN -H "$AUTH" -H 'Accept: text/event-stream' \\
  -H "Last-Event-ID: $LAST" "$EXPORT/events"
# All your exports, for three seconds:
curl -sSN -H "$AUTH" -H 'Accept: text/event-stream' \\
  --max-time 3 "$DESK/events?after=$LAST"
"""

PAGE = """\
curl -sS -H "$AUTH" "$DESK/events?after=$LAST&limit=100"
"""

ACKNOWLEDGE = """\
curl -sS -H "$AUTH" -H 'Content-Type: application/json' -w '%{http_code}\\n' \\
  -d "{\\"events\\": [\\"$LAST\\"], \\"channel\\": \\"sse\\"}" "$DESK/acknowledgements"
"""

DOWNLOAD = """\
# As if the connection had broken after a hundred bytes:
curl -sSL -H "$AUTH" -D file.txt -r 0-99 -o export.part "$EXPORT/file"
# The rest, if it is still the same file:
TAG=$(tr -d '\\r' < file.txt | awk 'tolower($1) == "etag:" { print $2 }')
curl -sSL -H "$AUTH" -H "If-Range: $TAG" -C - -o export.part "$EXPORT/file"
# Whole and right?
SUM=$(openssl dgst -sha256 -r export.part | cut -d ' ' -f 1)
curl -sS -H "$AUTH" "$EXPORT" | grep -q "\\"sha256\\":\\"$SUM\\"" && mv export.part export.csv && wc -c export.csv
"""

_SAVE = """\
SAVED=$(curl -sS -o saved.json -D - -H "$AUTH" -H 'Content-Type: application/json' \\
  -d '{{"name": "Weekly", "dataset": "{dataset}", "format": "jsonl"}}' "$DESK/saved-orders" |
  tr -d '\\r' | awk 'tolower($1) == "location:" {{ print $2 }}')
curl -sS -X PUT -H "$AUTH" -H 'Content-Type: application/json' \\
  -d '{{"cron": "30 8 * * 1", "zone": "Europe/Berlin"}}' "$SAVED/schedule"
"""

_COMMAND = """\
export EXPORTDESK_URL=$DESK EXPORTDESK_TOKEN=$TOKEN
exportdesk export {dataset} --name 'For June' --note 'As agreed' -o june.csv
exportdesk export --saved Weekly -o weekly.jsonl
"""

PYTHON = """\
import os

from webapp.client import Client

desk = Client(os.environ["DESK"], os.environ["TOKEN"])
[weekly] = [saved for saved in desk.saved_orders() if saved.name == "Weekly"]
print("next", desk.schedule(weekly.id).next[0])
answer = desk.order_saved(weekly.id)
while answer.export.is_active:
    waiting = answer.export
    print(waiting.status, waiting.queue_position, waiting.expected_start_at)
    answer = desk.get(answer.export.id, wait=20, known=answer)
answer = desk.annotate(answer.export.id, note="Fetched by a script")
with open("again.jsonl", "w+b") as file:
    desk.download(answer.export, file)
"""

PROBLEM = """\
curl -sS -H "$AUTH" -X POST "$EXPORT/cancellation"
"""

CLIENT = """\
// node follow.mjs: Node 22 or newer. On a page of this desk leave out `headers`:
// the cookie is enough there.
const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const known = new Set();
let last = null; // keep it in a file, and a restart of this program misses nothing either
let wait = 1000;

function connect() {
  const socket = new WebSocket(`${process.env.DESK.replace(/^http/, "ws")}/ws`, { headers });
  const say = (message) => socket.send(JSON.stringify(message));
  socket.onopen = () => say({ subscribe: { after: last?.id, client: "follow" } });
  socket.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    wait = 1000;
    // "subscribed"; or "reset": read the exports again, then go on.
    if (!event.id) return console.log(event.type);
    if (!known.has(event.id)) console.log(event.id, event.type, event.export_id, event.version);
    known.add(event.id);
    if (event.seq > (last?.seq ?? 0)) last = event;
    say({ ack: event.id });
  };
  socket.onerror = ({ message }) => console.error(message || "No connection. Is the token valid?");
  socket.onclose = ({ code, reason }) => {
    if ([4400, 4401, 4403].includes(code)) throw new Error(`${code} ${reason}`);
    setTimeout(connect, wait * (0.5 + Math.random()));
    wait = Math.min(wait * 2, 60_000);
  };
}

connect();
"""


def examples(desk: str, dataset: str) -> Mapping[str, str]:
    """By name. `desk` is the address of the API; `dataset` can be ordered without parameters."""
    return {
        "start": _START.format(desk=shlex.quote(desk)),
        "order": _ORDER.format(dataset=dataset),
        "poll": POLL,
        "wait": WAIT,
        "stream": STREAM,
        "resume": RESUME,
        "page": PAGE,
        "acknowledge": ACKNOWLEDGE,
        "download": DOWNLOAD,
        "save": _SAVE.format(dataset=dataset),
        "command": _COMMAND.format(dataset=shlex.quote(dataset)),
        "python": PYTHON,
        "problem": PROBLEM,
        "client": CLIENT,
    }
