// The ends of a person's exports, told wherever in the application the person is: a toast, a mark in the tab's title
// and, if wished for, the browser's own notification.
//
// What is active is known from the pages themselves and kept for all tabs. Only when something is active that this tab
// does not see by itself does it want the news; one tab of the browser then holds the one stream (a Web Lock says
// which) and passes on what it hears (BroadcastChannel). When that tab goes, the next that wants the news takes over.
(() => {
  "use strict";

  const viewer = document.body.dataset.viewer;
  if (!viewer || !window.EventSource || !window.BroadcastChannel) return;

  const ROOT = document.body.dataset.root;
  const LOCK = `exportdesk:news:${viewer}`;
  const ACTIVE = `exportdesk:active:${viewer}`;
  const CURSOR = `exportdesk:cursor:${viewer}`;
  const WISH = "exportdesk:notify";
  const AGAIN = 5000;
  const LONGEST = 300000;
  const TRIES = 8;
  const SHOWN = 3;
  const TOAST = 20000;
  const SPOKEN = 5000;
  const LOOKED_AT = 400;
  const HEARD_BY_ALL = 300;

  const channel = new BroadcastChannel(LOCK);
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

  // Whether this tab wants the news. Without locks every tab would have a stream of its own: then only while looked at.
  function isWanted() {
    if (isOver || Date.now() < quietUntil) return false;
    if (window.exportdeskLive?.isFollowing()) return true;
    const seen = document.hidden || !content()?.hasAttribute("data-active") ? [] : own();
    const elsewhere = active();
    for (const id of seen) elsewhere.delete(id);
    return elsewhere.size > 0 && (Boolean(navigator.locks) || !document.hidden);
  }

  let waiting = null;
  let letGo = null;
  let source = null;
  let againTimer = null;
  let quietUntil = 0;
  let isOver = false;
  let failures = 0;

  function settle() {
    if (!isWanted()) {
      giveUp();
      return;
    }
    if (waiting || letGo || source) return;
    if (!navigator.locks) {
      listen();
      return;
    }
    waiting = new AbortController();
    navigator.locks
      .request(LOCK, { signal: waiting.signal }, () => {
        waiting = null;
        if (!isWanted()) return null;
        listen();
        return new Promise((resolve) => {
          letGo = resolve;
        });
      })
      .catch(() => {});
  }

  function giveUp() {
    waiting?.abort();
    waiting = null;
    clearTimeout(againTimer);
    source?.close();
    source = null;
    letGo?.();
    letGo = null;
  }

  function listen() {
    const after = cursor();
    source = new EventSource(`${ROOT}notices/stream${after ? `?after=${after}` : ""}`);
    const hear = (name, told) => {
      source.addEventListener(name, (event) => told(JSON.parse(event.data)));
    };
    hear("ended", onEnded);
    hear("active", (ids) => {
      setActive(new Set(ids));
      settle();
    });
    hear("changed", (ids) => pass({ changed: ids }));
    source.addEventListener("heartbeat", () => pass({ heard: true }));
    source.addEventListener("signed-out", () => {
      pass({ signedOut: true });
    });
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
      againTimer = setTimeout(settle, wait + 100);
    });
  }

  // Nothing is active any more. A tab that does not show so yet asks by itself; the stream is not opened again at once,
  // and its turn is given up when the tabs in line know that.
  function rest() {
    quietUntil = Date.now() + AGAIN;
    waiting?.abort();
    waiting = null;
    setTimeout(giveUp, HEARD_BY_ALL);
    setTimeout(settle, AGAIN + 100);
  }

  // Only what some tab knew to be active is news: an old cursor brings ends that were told long ago.
  function onEnded(end) {
    moveCursor(end.seq);
    const known = active();
    if (!known.delete(end.export)) return;
    setActive(known);
    window.exportdeskLive?.confirm(end.id);
    pass({ ended: end });
    setTimeout(() => {
      if (!looked.has(end.id)) notify(end);
    }, LOOKED_AT);
  }

  function pass(message) {
    channel.postMessage(message);
    take(message);
  }

  function take(message) {
    if (message.seen) onSeen(message.seen);
    if (message.ended) tell(message.ended);
    if (message.signedOut) {
      isOver = true;
      giveUp();
    }
    if (message.isOver) rest();
    document.dispatchEvent(new CustomEvent("exportdesk:news", { detail: message }));
  }

  channel.addEventListener("message", (event) => take(event.data));

  // Telling.
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
    close.setAttribute("aria-label", `Close: ${end.text}`);
    close.textContent = "×";
    close.addEventListener("click", () => item.remove());
    item.append(link, close);
    list.append(item);
    while (list.children.length > SHOWN) list.firstElementChild.remove();
    fade(item);
    say(end.text);
  }

  // A toast that is pointed at or holds the focus stays.
  function fade(item) {
    setTimeout(() => {
      if (item.matches(":hover, :focus-within") || document.hidden) fade(item);
      else item.remove();
    }, TOAST);
  }

  let sentences = [];
  let spokenAt = 0;
  let speakTimer = null;

  function say(text) {
    sentences.push(text);
    speakTimer ??= setTimeout(speak, Math.max(50, spokenAt + SPOKEN - Date.now()));
  }

  function speak() {
    speakTimer = null;
    spokenAt = Date.now();
    const region = document.getElementById("toast-words");
    if (region) region.textContent = sentences.length > 3 ? `${sentences.length} exports have ended.` : sentences.join(" ");
    sentences = [];
  }

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
      Notification.permission === "denied" ? "Your browser does not allow it." : isOn ? "On" : "Off";
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
