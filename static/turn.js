// One tab of the browser at a time holds a stream; which, says a Web Lock. A tab that wants it for the element that it
// shows goes before one that only wants the news, since the stream of an element brings the news too. Without locks
// every tab streams by itself.
globalThis.exportdeskTurn = (() => {
  "use strict";

  const NAME = `exportdesk:turn:${document.body.dataset.viewer}`;
  const ELEMENT = "element";
  const NEWS = "news";
  const isShared = Boolean(navigator.locks && window.BroadcastChannel && document.body.dataset.viewer);
  const channel = isShared ? new BroadcastChannel(NAME) : null;
  const wishes = new Set();
  let letGo = null;
  let inLine = null;
  let isAwaited = false;
  let isGone = false;

  const isOurs = () => letGo !== null;
  const changed = () => document.dispatchEvent(new Event("exportdesk:turn"));

  // `who` is "element" or "news".
  function wish(who, isWished) {
    if (!isShared || isGone || wishes.has(who) === isWished) return;
    if (isWished) wishes.add(who);
    else wishes.delete(who);
    if (!wishes.size) giveUp();
    else if (isOurs()) offer();
    else if (inLine) ask();
    else standInLine();
  }

  function standInLine() {
    inLine = new AbortController();
    navigator.locks
      .request(NAME, { signal: inLine.signal }, () => {
        inLine = null;
        if (!wishes.size) return null;
        return new Promise((resolve) => {
          letGo = resolve;
          isAwaited = false;
          offer();
          changed();
        });
      })
      .catch(() => {});
    ask();
  }

  const ask = () => channel.postMessage({ asks: [...wishes] });
  const offer = () => channel.postMessage({ held: true });

  function giveUp() {
    inLine?.abort();
    inLine = null;
    const resolve = letGo;
    letGo = null;
    if (!resolve) return;
    changed();
    resolve();
  }

  // Whoever holds it for the news alone makes way for an element; whoever holds it brings the others the news.
  function onAsked(others) {
    if (!isOurs()) return;
    if (others.includes(ELEMENT) && !wishes.has(ELEMENT)) {
      giveUp();
      standInLine();
    } else if (others.includes(NEWS) && !isAwaited) {
      isAwaited = true;
      changed();
    }
  }

  channel?.addEventListener("message", ({ data }) => {
    if (data.held && inLine) ask();
    if (data.asks) onAsked(data.asks);
  });

  window.addEventListener("pagehide", () => {
    isGone = true;
    wishes.clear();
    giveUp();
  });

  window.addEventListener("pageshow", () => {
    isGone = false;
  });

  return {
    isShared,
    isOurs,
    wish,
    // Whether other tabs are in line for the news.
    isAwaited: () => isOurs() && isAwaited,
    // There are no news any more: whoever still needs some asks again.
    forget() {
      isAwaited = false;
    },
  };
})();
