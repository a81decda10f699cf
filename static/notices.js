// The ends of a person's exports, and what others share with them, told wherever in the application the person is: a
// toast, a mark in the tab's title and, if wished for, the browser's own notification.
//
// What is active is known from the pages themselves and kept for all tabs. Only when something is active that this tab
// does not see by itself does it want the news. One tab of the browser holds the one stream (turn.js) and passes on
// what it hears (BroadcastChannel): the news come with the stream of its element, or in a stream of their own.
(() => {
  "use strict";

  const { say, sayMany } = globalThis.exportdesk;
  const viewer = document.body.dataset.viewer;
  if (!viewer || !window.EventSource || !window.BroadcastChannel) return;

  const ROOT = document.body.dataset.root;
  const NEWS = `exportdesk:news:${viewer}`;
  const ACTIVE = `exportdesk:active:${viewer}`;
  const CURSOR = `exportdesk:cursor:${viewer}`;
  const SHARED = `exportdesk:shared:${viewer}`;
  const WISH = "exportdesk:notify";
  const AGAIN = 5000;
  const LONGEST = 300000;
  const TRIES = 8;
  const SHOWN = 3;
  const TOAST = 20000;
  const SPOKEN = 5000;
  const LOOKED_AT = 400;
  const HEARD_BY_ALL = 300;

  const channel = new BroadcastChannel(NEWS);
  const storage = {
    get(key) {
      try {
        return localStorage.getItem(key);
      } catch {
        return null;
      }
    },
    set(key, value) {
      try {
        localStorage.setItem(key, value);
      } catch {
        // Without it this tab knows only what it shows itself.
      }
    },
  };

  // What is active, for all tabs.
  function active() {
    try {
      const kept = JSON.parse(storage.get(ACTIVE) ?? "[]");
      return new Set(Array.isArray(kept) ? kept : []);
    } catch {
      return new Set();
    }
  }

  function setActive(ids) {
    const text = JSON.stringify([...ids].slice(-200));
    if (text !== (storage.get(ACTIVE) ?? "[]")) storage.set(ACTIVE, text);
  }

  const cursor = () => storage.get(CURSOR) ?? "";

  function moveCursor(seq) {
    if (Number.isSafeInteger(seq) && seq > Number(cursor() || 0)) storage.set(CURSOR, String(seq));
  }

  // What this tab shows.
  const content = () => document.getElementById("live-content");
  const own = () => (content()?.dataset.own ?? "").split(" ").filter(Boolean);

  function shows(id) {
    return Boolean(content()) && (location.pathname === `${ROOT}exports/${id}` || document.getElementById(`row-${id}`) !== null);
  }

  function learn() {
    if (!content()?.hasAttribute("data-exports")) return;
    const mine = new Set(own());
    const known = active();
    const isFirst = known.size === 0;
    for (const id of known) if (shows(id) && !mine.has(id)) known.delete(id);
    for (const id of mine) known.add(id);
    setActive(known);
    // Ends that are still to be told lie behind the cursor: while anything is awaited only they move it.
    if (isFirst && known.size) moveCursor(Number((content().dataset.stamp ?? "").split(".")[0]));
  }

  const isQuiet = () => isOver || Date.now() < quietUntil;

  // Whether this tab wants the news. Without locks every tab would have a stream of its own: then only while looked at.
  function isWanted() {
    if (isQuiet()) return false;
    if (window.exportdeskLive?.isFollowing()) return true;
    const seen = document.hidden || !content()?.hasAttribute("data-active") ? [] : own();
    const elsewhere = active();
    for (const id of seen) elsewhere.delete(id);
    return elsewhere.size > 0 && (turn.isShared || !document.hidden);
  }

  const turn = globalThis.exportdeskTurn;
  let source = null;
  let quietUntil = 0;
  let isOver = false;
  let failures = 0;

  function settle() {
    const isWished = isWanted();
    turn.wish("news", isWished);
    const isDue = turn.isShared ? turn.isOurs() && (isWished || turn.isAwaited()) : isWished;
    if (!isDue || isQuiet() || window.exportdeskLive?.isStreaming()) giveUp();
    else if (!source) listen();
  }

  function giveUp() {
    source?.close();
    source = null;
  }

  const told = {
    ended: onEnded,
    active(ids) {
      setActive(new Set(ids));
      settle();
    },
    changed: (ids) => pass({ changed: ids }),
    shared: onShared,
  };
  const heard = () => pass({ heard: true });
  const signedOut = () => pass({ signedOut: true });

  function listen() {
    const after = cursor();
    source = new EventSource(`${ROOT}notices/stream${after ? `?after=${after}` : ""}`);
    for (const [name, tell] of Object.entries(told)) source.addEventListener(name, (event) => tell(JSON.parse(event.data)));
    source.addEventListener("heartbeat", heard);
    source.addEventListener("signed-out", signedOut);
    source.addEventListener("end", () => {
      source?.close();
      setActive(new Set());
      pass({ changed: [], isOver: true });
    });
    // The browser connects again by itself, unless the answer was no stream at all.
    source.addEventListener("open", () => {
      failures = 0;
    });
    source.addEventListener("error", () => {
      if (source?.readyState !== EventSource.CLOSED) return;
      giveUp();
      failures += 1;
      isOver = failures > TRIES;
      const wait = Math.min(AGAIN * 2 ** failures, LONGEST) * (0.8 + Math.random() * 0.4);
      quietUntil = Date.now() + wait;
      settle();
      setTimeout(settle, wait + 100);
    });
  }

  // The stream of the element brings them under longer names.
  document.addEventListener("htmx:before:request", ({ detail }) => {
    const request = detail.ctx?.request;
    if (detail.ctx?.sourceElement?.id !== "live" || !request?.action.split("?")[0].endsWith("/stream")) return;
    request.action += `${request.action.includes("?") ? "&" : "?"}news=${cursor()}`;
  });
  for (const [name, tell] of Object.entries(told)) {
    document.addEventListener(`news-${name}`, ({ detail }) => tell(JSON.parse(detail.data)));
  }
  document.addEventListener("heartbeat", heard);
  document.addEventListener("signed-out", signedOut);
  document.addEventListener("exportdesk:turn", settle);
  document.addEventListener("exportdesk:streams", settle);

  // Nothing is active any more. A tab that does not show so yet asks by itself; the stream is not opened again at once,
  // and its turn is given up when the tabs in line know that.
  function rest() {
    quietUntil = Date.now() + AGAIN;
    turn.forget();
    setTimeout(settle, HEARD_BY_ALL);
    setTimeout(settle, AGAIN + 100);
  }

  // Only what some tab knew to be active is news: an old cursor brings ends that were told long ago.
  function onEnded(end) {
    moveCursor(end.seq);
    const known = active();
    if (!known.delete(end.export)) return;
    setActive(known);
    if (heardOf.has(end.id)) return;
    window.exportdeskLive?.confirm(end.id);
    pass({ ended: end });
    setTimeout(() => {
      if (!looked.has(end.id)) notify(end);
    }, LOOKED_AT);
  }

  // What others share is told until it was opened: here, once.
  function onShared(share) {
    const known = (storage.get(SHARED) ?? "").split(" ").filter(Boolean);
    if (known.includes(share.id)) return;
    storage.set(SHARED, [...known, share.id].slice(-50).join(" "));
    pass({ ended: share });
    setTimeout(() => {
      if (!looked.has(share.id)) notify(share);
    }, LOOKED_AT);
  }

  function pass(message) {
    channel.postMessage(message);
    take(message);
  }

  function take(message) {
    if (message.seen) onSeen(message.seen);
    if (message.ended && !heardOf.has(message.ended.id)) {
      heardOf.add(message.ended.id);
      tell(message.ended);
    }
    if (message.signedOut) {
      isOver = true;
      settle();
    }
    if (message.isOver) rest();
    document.dispatchEvent(new CustomEvent("exportdesk:news", { detail: message }));
  }

  channel.addEventListener("message", (event) => take(event.data));

  // Telling, each end once: a stream that breaks off brings what it brought before, and a tab that has not caught up
  // yet holds for active what was told.
  const heardOf = new Set();
  const looked = new Set();
  const unseen = new Map();
  let title = document.title;

  function tell(end) {
    if (!document.hidden && !shows(end.export)) toast(end);
    if (!document.hidden && document.hasFocus()) {
      seen(end.id);
      return;
    }
    unseen.set(end.id, { ...end, isToasted: !document.hidden });
    mark();
  }

  function seen(id) {
    channel.postMessage({ seen: id });
    onSeen(id);
  }

  function onSeen(id) {
    looked.add(id);
    if (unseen.delete(id)) mark();
  }

  document.addEventListener("exportdesk:title", ({ detail }) => {
    document.title = detail;
    mark();
  });

  function mark() {
    if (!/^\(\d+\) /.test(document.title)) title = document.title;
    document.title = unseen.size ? `(${unseen.size}) ${title}` : title;
  }

  function toast(end) {
    const list = document.getElementById("toasts");
    if (!list) return;
    const item = document.createElement("li");
    item.className = `toast tone-${end.tone}`;
    const link = document.createElement("a");
    link.href = `${ROOT}exports/${end.export}`;
    link.textContent = end.text;
    const close = document.createElement("button");
    close.type = "button";
    close.className = "toast-close";
    close.setAttribute("aria-label", say("Close: {text}", { text: end.text }));
    close.textContent = "×";
    close.addEventListener("click", () => item.remove());
    item.append(link, close);
    list.append(item);
    while (list.children.length > SHOWN) list.firstElementChild.remove();
    fade(item);
    utter(end.export, end.text);
  }

  // A toast that is pointed at or holds the focus stays.
  function fade(item) {
    setTimeout(() => {
      if (item.matches(":hover, :focus-within") || document.hidden) fade(item);
      else item.remove();
    }, TOAST);
  }

  // Spoken at most once in so long, of each export the newest.
  const sentences = new Map();
  let spokenAt = 0;
  let speakTimer = null;

  function utter(id, text) {
    sentences.set(id, text);
    speakTimer ??= setTimeout(speak, Math.max(50, spokenAt + SPOKEN - Date.now()));
  }

  function speak() {
    speakTimer = null;
    spokenAt = Date.now();
    const region = document.getElementById("toast-words");
    if (region) region.textContent = sentences.size > 3 ? sayMany("{n} export has ended.", "{n} exports have ended.", sentences.size) : [...sentences.values()].join(" ");
    sentences.clear();
  }

  // What the page itself shows has no toast: the list speaks of ends, the page of one export of every status and of each
  // quarter of the way.
  const GOING_ON = ["PENDING", "QUEUED", "PROCESSING"];

  function statesShown() {
    const states = new Map();
    for (const shown of document.querySelectorAll("#live-content [data-status]")) {
      const { export: id, status, title } = shown.dataset;
      if (!id) continue;
      if (title) {
        const percent = Number.parseInt(shown.querySelector("[data-percent]")?.textContent, 10) || 0;
        states.set(id, { mark: `${status} ${Math.floor(percent / 25)}`, text: percent ? `${title}, ${percent}%` : title });
      } else {
        const words = [".row-title", ".cell-status"].map((part) => shown.querySelector(part).textContent.trim());
        states.set(id, { mark: GOING_ON.includes(status) ? "" : status, text: words.join(", ") });
      }
    }
    return states;
  }

  let states = statesShown();

  document.addEventListener("exportdesk:applied", () => {
    const before = states;
    states = statesShown();
    if (document.hidden) return;
    for (const [id, { mark, text }] of states) {
      if (mark && before.has(id) && before.get(id).mark !== mark) utter(id, text);
    }
  });

  // The browser's own notification: only when wished for, and only when no tab was looked at.
  const wish = document.getElementById("notify");

  function notify(end) {
    if (!("Notification" in window) || storage.get(WISH) !== "1" || Notification.permission !== "granted") return;
    try {
      const shown = new Notification(end.text, { tag: end.id, body: "Exportdesk" });
      shown.addEventListener("click", () => {
        window.focus();
        location.assign(`${ROOT}exports/${end.export}`);
      });
    } catch {
      // Some browsers allow this to service workers alone.
    }
  }

  function showWish() {
    if (!wish || !("Notification" in window)) return;
    wish.hidden = false;
    const isOn = storage.get(WISH) === "1" && Notification.permission === "granted";
    wish.setAttribute("aria-pressed", String(isOn));
    wish.querySelector("small").textContent =
      Notification.permission === "denied" ? say("Your browser does not allow it.") : isOn ? say("On") : say("Off");
  }

  wish?.addEventListener("click", async () => {
    const isOn = wish.getAttribute("aria-pressed") === "true";
    if (!isOn && Notification.permission === "default") await Notification.requestPermission();
    storage.set(WISH, isOn ? "0" : "1");
    showWish();
  });

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      for (const [id, end] of [...unseen]) {
        if (!end.isToasted && !shows(end.export)) toast(end);
        seen(id);
      }
    }
    settle();
  });
  window.addEventListener("focus", () => {
    for (const id of [...unseen.keys()]) seen(id);
  });
  window.addEventListener("storage", (event) => {
    if (event.key === ACTIVE) settle();
    if (event.key === WISH) showWish();
  });
  document.addEventListener("exportdesk:shown", () => {
    learn();
    settle();
  });
  window.addEventListener("pagehide", giveUp);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) settle();
  });

  showWish();
  learn();
  settle();
})();
