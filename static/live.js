// How a page keeps itself true when the easy way fails. htmx polls three times and then opens the stream by itself
// (the server's answers say so); this file watches over it: silence, a stream that ends, an answer that never comes,
// being offline, being signed out. It falls back to polling, backs off, and lets the server offer the stream again.
(() => {
  "use strict";

  const { language, say } = globalThis.exportdesk;
  const SILENT_HEARTBEATS = 2;
  const LONGEST_WAIT = 30;
  const SENTENCES = {
    offline: say("You are offline. This is the last known state; it continues by itself when you are back."),
    trouble: say("The server does not answer. This is the last known state; trying again."),
    signedOut: say("You are signed out. Sign in again to see what happened since."),
    gone: say("This was deleted, or is no longer yours."),
    remembered: say("This is the state from your last visit; checking for news."),
  };

  let heardAt = Date.now();
  let retryTimer = null;
  let isAway = false;
  let stopped = false;

  const element = () => document.getElementById("live");
  const content = () => document.getElementById("live-content");
  const isActive = () => Boolean(content()?.hasAttribute("data-active"));
  const isStreaming = () => Boolean(element()?._htmx?.sse);
  const announce = () => document.dispatchEvent(new Event("exportdesk:shown"));
  const storageKey = () => `live:${language}:` + location.pathname + location.search;

  function notice(kind) {
    let bar = document.getElementById("live-notice");
    if (!kind) {
      bar?.remove();
      return;
    }
    if (!bar) {
      bar = document.createElement("p");
      bar.id = "live-notice";
      bar.className = "live-notice";
      bar.setAttribute("role", "status");
      element()?.before(bar);
    }
    if (bar.textContent !== SENTENCES[kind]) bar.textContent = SENTENCES[kind];
    bar.dataset.kind = kind;
  }

  // [newest event, rows moved]: what is older than what is shown is not applied.
  function stampOf(text) {
    const match = /data-stamp="(\d+)\.(\d+)"/.exec(text ?? "");
    return match ? [Number(match[1]), Number(match[2])] : null;
  }

  function isOlder(a, b) {
    return Boolean(a && b) && (a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]));
  }

  const shownStamp = () => stampOf(`data-stamp="${content()?.dataset.stamp ?? ""}"`);

  // Every snapshot would cost a busy page more than showing it does.
  const REMEMBER_WAIT = 1000;
  let rememberTimer = null;

  function rememberSoon() {
    rememberTimer ??= setTimeout(remember, REMEMBER_WAIT);
  }

  function remember() {
    clearTimeout(rememberTimer);
    rememberTimer = null;
    const shown = content();
    if (!shown) return;
    try {
      sessionStorage.setItem(storageKey(), JSON.stringify({ stamp: shown.dataset.stamp, html: shown.outerHTML }));
    } catch {
      // A full or forbidden storage costs only the memory of this page.
    }
  }

  // A page that comes back from the browser's cache may be older than what this tab has seen. (A page that was
  // just loaded never is, whatever its stamp: what was deleted leaves no event.)
  function recall() {
    let kept = null;
    try {
      kept = JSON.parse(sessionStorage.getItem(storageKey()) ?? "null");
    } catch {
      return;
    }
    if (!kept || !isOlder(shownStamp(), stampOf(`data-stamp="${kept.stamp}"`))) return;
    const parsed = new DOMParser().parseFromString(kept.html, "text/html").getElementById("live-content");
    if (!parsed) return;
    content().replaceWith(parsed);
    for (const id of eventsShown()) applied.add(id);
    window.htmx?.process(parsed);
    notice(navigator.onLine ? "remembered" : "offline");
  }

  // The extension would reconnect for ever; without attempts left it gives up.
  function closeStream(live) {
    const connection = live._htmx?.sse;
    if (!connection) return;
    connection.config.reconnectMaxAttempts = -1;
    if (connection.reader) connection.reader.cancel();
    else connection.abortController?.abort();
  }

  function stop(kind) {
    stopped = true;
    clearTimeout(retryTimer);
    retryTimer = null;
    const live = element();
    setStreams(false);
    if (live) {
      closeStream(live);
      for (const name of ["hx-get", "hx-trigger", "hx-sse:connect"]) live.removeAttribute(name);
    }
    notice(kind);
    announce();
  }

  const tries = () => Number(element()?.dataset.tries ?? 0);

  // The next poll of the fallback; the server's answer brings the rhythm and, now and then, the stream again. From a
  // server that was away and is back the stream is wanted at once.
  function fallBack(seconds) {
    if (stopped || retryTimer || !isActive()) return;
    const next = tries() + 1;
    const backOff = Math.min(2 ** Math.max(0, next - 2), LONGEST_WAIT);
    const wait = seconds ?? (next === 1 ? 0 : backOff * (0.8 + Math.random() * 0.4));
    retryTimer = setTimeout(() => {
      retryTimer = null;
      if (element()) element().dataset.tries = String(next);
      if (isAway) poll("poll", 3);
      else poll("fallback", next);
    }, wait * 1000);
  }

  function poll(why, number) {
    const live = element();
    if (!live || stopped || !window.htmx) return;
    const base = live.dataset.fallback;
    if (!base) return;
    clearTimeout(retryTimer);
    retryTimer = null;
    // The stream's element is replaced by a plain one, so that two ways to the news never run side by side.
    closeStream(live);
    setStreams(false);
    const bare = live.cloneNode(true);
    for (const name of ["hx-get", "hx-trigger", "hx-sse:connect", "hx-sse:close"]) bare.removeAttribute(name);
    const place = placeIn(live, document.activeElement);
    live.replaceWith(bare);
    if (place) place.reduce((at, number) => at.children[number], bare).focus({ preventScroll: true });
    const url = new URL(base, location.href);
    url.searchParams.set(why, String(number));
    window.htmx.ajax("GET", url.pathname + url.search, { source: bare, target: bare, swap: "outerMorph" });
  }

  // Which child of which child of the live element it is; null for what is outside.
  function placeIn(live, each) {
    if (!live.contains(each)) return null;
    return each === live ? [] : [...placeIn(live, each.parentElement), [...each.parentElement.children].indexOf(each)];
  }

  // Whoever goes by keyboard stays where they are while the page changes: on the same element, or, where that is gone,
  // on what is left around it.
  const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
  let held = [];

  function holdFocus() {
    held = [];
    if (!element()?.contains(document.activeElement)) return;
    for (let each = document.activeElement; each; each = each.parentElement) held.push(each);
  }

  function keepFocus() {
    if (held.length && (!document.activeElement || document.activeElement === document.body))
      held.find((each) => each.isConnected && each.matches(FOCUSABLE))?.focus({ preventScroll: true });
    held = [];
  }

  function retryAfter(response) {
    const value = Number(response?.headers?.get?.("Retry-After"));
    return Number.isFinite(value) && value > 0 ? Math.min(value, 300) : undefined;
  }

  function onBadAnswer(status, response, isStream) {
    isAway = !isStream;
    if (isStream) setStreams(false);
    if (status === 401 || status === 403) stop("signedOut");
    else if (status === 404) stop("gone");
    else {
      notice(navigator.onLine ? "trouble" : "offline");
      fallBack(retryAfter(response));
    }
  }

  // What was on the page from the start is no news. What a snapshot brought is confirmed, once, a batch at a time:
  // when it waited for others, the server is told how long, so that the wait does not count as latency.
  const BATCH_WAIT = 1000;
  const BATCH_AGAIN = 5000;
  const BATCH = 100;
  const ROOT = document.body.dataset.root;
  const ACKNOWLEDGEMENTS = `${ROOT}api/v1/acknowledgements`;
  const applied = new Set(eventsShown());
  const confirmed = new Set(applied);
  let arrived = [];
  let flushTimer = null;

  function eventsShown() {
    return (content()?.dataset.events ?? "").split(" ").filter(Boolean);
  }

  function versionsShown() {
    const shown = content()?.querySelectorAll("[data-version]") ?? [];
    return Object.fromEntries([...shown].map((each) => [each.dataset.export, Number(each.dataset.version)]));
  }

  // Whoever measures or mirrors this page hears what each snapshot brought: the events that were not shown before, and
  // the version of each export that is shown now.
  function tellApplied() {
    const title = content()?.querySelector("[data-title]")?.dataset.title;
    if (title) document.dispatchEvent(new CustomEvent("exportdesk:title", { detail: `${title} · Exportdesk` }));
    const channel = isStreaming() ? "sse" : "polling";
    const events = eventsShown().filter((id) => !applied.has(id));
    const detail = { stamp: shownStamp(), channel, events, versions: versionsShown() };
    document.dispatchEvent(new CustomEvent("exportdesk:applied", { detail }));
    for (const id of events) {
      applied.add(id);
      confirm(id, channel);
    }
    announce();
  }

  function confirm(id, channel) {
    if (confirmed.has(id)) return;
    confirmed.add(id);
    arrived.push({ id, channel, at: Date.now() });
    flushTimer ??= setTimeout(flush, BATCH_WAIT);
  }

  function flush() {
    clearTimeout(flushTimer);
    flushTimer = null;
    for (const channel of ["sse", "polling"]) {
      const batch = arrived.filter((each) => each.channel === channel).slice(-BATCH);
      if (batch.length) send(channel, batch);
    }
    arrived = [];
  }

  // Even while the page goes away. What a server did not take is sent again with the next batch.
  async function send(channel, batch) {
    const now = Date.now();
    const held_ms = batch.map((each) => Math.min(Math.max(0, now - each.at), 60000));
    const body = JSON.stringify({ events: batch.map((each) => each.id), channel, held_ms });
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(ACKNOWLEDGEMENTS, { method: "POST", headers, body, keepalive: true }).catch(() => null);
    if (answer && answer.status < 500) return;
    arrived = [...batch, ...arrived];
    flushTimer ??= setTimeout(flush, BATCH_AGAIN);
  }

  window.addEventListener("pagehide", () => {
    if (rememberTimer) remember();
    flush();
  });

  // One tab of the browser at a time streams its element (turn.js). The others ask for their element anew: pages of
  // exports whenever the news (notices.js) say that it changed, all others every few seconds, since nobody brings them
  // news. Without locks each tab streams by itself.
  const HAS_NEWS = Boolean(content()?.hasAttribute("data-exports"));
  const NEWS_WAIT = 250;
  const NEWS_AGE = 3000;
  const turn = globalThis.exportdeskTurn;
  let newsTimer = null;
  let streams = false;
  const isWaiting = () => turn.isShared && isActive() && !stopped && !turn.isOurs();
  const isFollowing = () => isWaiting() && !isStreaming() && Boolean(element()?.hasAttribute("hx-sse:connect"));
  // It polls since the news failed; they are back.
  const isLeftBehind = () => isWaiting() && tries() > 0 && !document.hidden;

  window.exportdeskLive = {
    isFollowing: () => HAS_NEWS && isFollowing(),
    isStreaming: () => streams,
    confirm: (id) => confirm(id, "sse"),
  };

  // Whether this tab has a stream, or is about to; then it needs no other for the news.
  function setStreams(has) {
    if (streams === has) return;
    streams = has;
    document.dispatchEvent(new Event("exportdesk:streams"));
  }

  const wishTurn = () => turn.wish("element", isActive() && !stopped && !document.hidden);

  document.addEventListener("exportdesk:turn", () => {
    const connects = element()?.hasAttribute("hx-sse:connect") && isActive() && !stopped;
    if (turn.isOurs() && connects && !isStreaming() && !streams) poll("poll", 3);
  });

  document.addEventListener("htmx:before:request", (event) => {
    if (!isLive(event) || !isStream(event)) return;
    if (turn.isShared && !turn.isOurs()) {
      event.preventDefault();
      setTimeout(announce);
    } else setStreams(true);
  });

  document.addEventListener("htmx:sse:before:connection", (event) => {
    if (!isLive(event) || event.detail.connection.attempt === 0) return;
    if (turn.isShared && !turn.isOurs()) event.preventDefault();
    else setStreams(true);
  });

  document.addEventListener("exportdesk:shown", wishTurn);

  document.addEventListener("exportdesk:news", ({ detail }) => {
    if (detail.signedOut && element() && isActive()) stop("signedOut");
    if (!HAS_NEWS || (!isFollowing() && !isLeftBehind())) return;
    heardAt = Date.now();
    if (isLeftBehind() || (detail.changed && concerns(detail.changed) && !document.hidden)) {
      newsTimer ??= setTimeout(() => {
        newsTimer = null;
        if (isFollowing() || isLeftBehind()) poll("poll", 3);
      }, NEWS_WAIT * (0.5 + Math.random()));
    }
  });

  // The list may gain a row by any change.
  function concerns(ids) {
    return !ids.length || location.pathname === `${ROOT}exports` || ids.some((id) => location.pathname === `${ROOT}exports/${id}`);
  }

  const isLive = (event) => event.target?.id === "live" || event.detail?.ctx?.sourceElement?.id === "live";
  const isStream = (event) => Boolean(event.detail?.ctx?.request?.action?.split("?")[0].endsWith("/stream"));

  document.addEventListener("htmx:response:error", (event) => {
    if (isLive(event)) onBadAnswer(event.detail.ctx.response.status, event.detail.ctx.response.raw, isStream(event));
  });

  document.addEventListener("htmx:error", (event) => {
    if (isLive(event)) onBadAnswer(0, null, isStream(event));
  });

  // An older answer than what is shown changes nothing; the rhythm goes on. One that was on its way when the page
  // stopped would take back what it says about that, and the rhythm is over.
  document.addEventListener("htmx:before:swap", (event) => {
    if (!isLive(event)) return;
    if (stopped) {
      event.preventDefault();
      return;
    }
    const ctx = event.detail.ctx;
    if (ctx.response?.status >= 400) return;
    if (isOlder(stampOf(ctx.text), shownStamp())) {
      event.preventDefault();
      if (!isStreaming()) fallBack(1);
    } else holdFocus();
  });

  document.addEventListener("htmx:after:swap", (event) => {
    if (!isLive(event) || (event.detail.ctx.response?.status ?? 200) >= 400) return;
    keepFocus();
    heardAt = Date.now();
    isAway = false;
    notice(null);
    rememberSoon();
    tellApplied();
  });

  document.addEventListener("htmx:sse:after:connection", () => {
    heardAt = Date.now();
  });

  document.addEventListener("htmx:sse:before:message", (event) => {
    heardAt = Date.now();
    const message = event.detail.message;
    if (!message.event && isOlder(stampOf(message.data), shownStamp())) event.detail.cancelled = true;
    else if (!message.event) holdFocus();
  });

  document.addEventListener("htmx:sse:after:message", () => {
    keepFocus();
    if (stopped) return;
    notice(null);
    rememberSoon();
    tellApplied();
  });

  document.addEventListener("htmx:sse:error", (event) => {
    if (!isLive(event)) return;
    const status = event.detail.status;
    if (status) onBadAnswer(status, null, true);
  });

  document.addEventListener("htmx:sse:close", (event) => {
    if (!isLive(event)) return;
    setStreams(false);
    if (event.detail.reason === "message") {
      // Its last word is the end. Whatever kept the page from showing that, a poll will bring it.
      if (isActive()) fallBack(1);
      return;
    }
    if (isWaiting()) {
      setTimeout(() => {
        announce();
        if (isFollowing() && !document.hidden) poll("poll", 3);
      });
      return;
    }
    if (event.detail.reason === "ended" && isActive() && !stopped) {
      notice(navigator.onLine ? null : "offline");
      fallBack();
    }
  });

  document.addEventListener("signed-out", () => stop("signedOut"));
  document.addEventListener("gone", () => stop("gone"));
  // Where long connections are dear the server ends them on purpose, and its answers bring the rhythm of polls.
  document.addEventListener("rest", () => poll("rest", 1));

  // A proxy that holds the stream back is known by its silence: not even heartbeats arrive.
  setInterval(() => {
    const live = element();
    if (!live || stopped || !isActive() || retryTimer || document.hidden) return;
    const heartbeat = Number(live.dataset.heartbeat) || 15;
    const patience = (SILENT_HEARTBEATS * heartbeat + 1) * 1000;
    if (!HAS_NEWS && isFollowing() && Date.now() - heardAt > NEWS_AGE) {
      heardAt = Date.now();
      poll("poll", 3);
      return;
    }
    if (live.hasAttribute("hx-sse:connect") && Date.now() - heardAt > patience) {
      heardAt = Date.now();
      // A stream that was open and is not any more is no stream that is held back.
      const connection = live._htmx?.sse;
      if (connection && !connection.reader) poll("poll", 3);
      else fallBack();
    }
  }, 500);

  window.addEventListener("offline", () => {
    if (element() && isActive()) notice("offline");
  });

  window.addEventListener("online", () => {
    if (!element() || stopped || !isActive()) return;
    clearTimeout(retryTimer);
    retryTimer = null;
    fallBack(0);
  });

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) setStreams(false);
    else heardAt = Date.now();
    wishTurn();
    // Its news were left aside while nobody looked, and who looks does not wait for the next try.
    if (!document.hidden && (isFollowing() || retryTimer)) poll("poll", 3);
  });

  window.addEventListener("pageshow", (event) => {
    heardAt = Date.now();
    if (!element()) return;
    announce();
    if (event.persisted) {
      recall();
      if (isActive()) fallBack(0);
    } else remember();
  });

  // A script that was lost on a bad network comes again, and htmx begins by itself. Its extension needs it, so that one
  // is lost with it.
  function load(name) {
    const script = document.createElement("script");
    script.src = document.querySelector(`script[src*="/${name}.min.js"]`).src;
    return new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", reject);
      document.head.append(script);
    });
  }

  function loadLost(wait) {
    notice(navigator.onLine ? "trouble" : "offline");
    setTimeout(() => {
      load("htmx")
        .then(() => load("hx-sse"))
        .catch(() => loadLost(Math.min(2 * wait, LONGEST_WAIT)));
    }, wait * 1000);
  }

  if (!window.htmx && isActive()) loadLost(1);
})();
