// Keyboard shortcuts, and the sheet that `?` opens. Off in this browser, no key does anything; the menu has the sheet too.
// Where keys lead is written on the links of the page: data-keys="g e".
(() => {
  "use strict";

  const { say } = globalThis.exportdesk;
  const OFF = "exportdesk:shortcuts-off";
  const SEQUENCE = 1500;
  const TYPING = "input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select, [contenteditable], [role=combobox], [role=listbox]";

  const MEANINGS = [
    [["j", "↓"], () => say("Next row")],
    [["k", "↑"], () => say("Previous row")],
    [["Enter"], () => say("Open the row")],
    [["x"], () => say("Select the row, or not")],
    [["/"], () => say("Search")],
    [["Esc"], () => say("Close what is open")],
    [["?"], () => say("This list")],
  ];

  function isOff() {
    try {
      return localStorage.getItem(OFF) !== null;
    } catch {
      return false;
    }
  }

  function setOff(isWished) {
    try {
      if (isWished) localStorage.setItem(OFF, "1");
      else localStorage.removeItem(OFF);
    } catch {
      // Nothing is kept here: they stay on.
    }
  }

  // Rows are what has a link to a page of its own; the link is what is focused.
  const links = () => [...document.querySelectorAll("main a.row-title")].filter((link) => link.checkVisibility());
  const rowOf = (element) => element?.closest?.("tr, li") ?? null;
  const linkOf = (element) => rowOf(element)?.querySelector("a.row-title") ?? null;

  function step(by) {
    const found = links();
    const at = found.indexOf(linkOf(document.activeElement));
    const next = found[at < 0 ? 0 : Math.min(found.length - 1, Math.max(0, at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
    return Boolean(next);
  }

  function toggle() {
    const box = rowOf(document.activeElement)?.querySelector(".tick[name]");
    box?.click();
    return Boolean(box);
  }

  function search() {
    const field = document.querySelector("main input[type=search]");
    field?.focus();
    field?.select();
    return Boolean(field);
  }

  function open() {
    const link = linkOf(document.activeElement);
    if (!link || !document.activeElement.matches(".tick")) return false;
    link.click();
    return true;
  }

  // Arrows scroll, until a row has the focus.
  const inRow = () => linkOf(document.activeElement) !== null;
  const DEEDS = {
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => inRow() && step(1),
    ArrowUp: () => inRow() && step(-1),
    x: toggle,
    Enter: open,
    "/": search,
    "?": showSheet,
  };

  const led = () => [...document.querySelectorAll("a[data-keys]")];

  function follow(keys) {
    const link = led().find((each) => each.dataset.keys === keys);
    link?.click();
    return Boolean(link);
  }

  let begun = { key: "", at: 0 };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isOff() || event.target.closest?.(TYPING) || document.querySelector("dialog[open]")) return;
    const { key } = event;
    const isSecond = begun.key && event.timeStamp - begun.at < SEQUENCE;
    const keys = isSecond ? `${begun.key} ${key}` : key;
    begun = { key: "", at: 0 };
    if (!isSecond && led().some((each) => each.dataset.keys.startsWith(`${key} `))) {
      begun = { key, at: event.timeStamp };
      return;
    }
    if (follow(keys) || (!isSecond && Object.hasOwn(DEEDS, key) && DEEDS[key]())) event.preventDefault();
  });

  // The sheet.
  function made(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  function line(keys, text, between) {
    const shown = keys.flatMap((key, n) => (n ? [between, made("kbd", {}, key)] : [made("kbd", {}, key)]));
    return made("div", {}, made("dt", {}, ...shown), made("dd", {}, text));
  }

  function sheet() {
    const [or, then] = [say("or"), say("then")];
    const pages = led().map((link) => line(link.dataset.keys.split(" "), link.textContent.trim(), ` ${then} `));
    const rows = MEANINGS.map(([keys, meaning]) => line(keys, meaning(), ` ${or} `));
    const box = made("input", { type: "checkbox", checked: !isOff() });
    box.addEventListener("change", () => setOff(!box.checked));
    const title = made("h2", { id: "shortcuts-title" }, say("Keyboard shortcuts"));
    const close = made("button", { className: "button", autofocus: true }, say("Close"));
    const form = made(
      "form",
      { method: "dialog" },
      title,
      made("dl", { className: "shortcuts" }, ...rows, ...pages),
      made("label", { className: "option" }, box, made("span", {}, say("Use them in this browser"))),
      made("div", { className: "dialog-buttons" }, close),
    );
    const dialog = made("dialog", { id: "shortcuts", className: "dialog" }, form);
    dialog.setAttribute("aria-labelledby", title.id);
    dialog.addEventListener("close", () => dialog.remove());
    return dialog;
  }

  function showSheet() {
    const dialog = sheet();
    document.body.append(dialog);
    dialog.showModal();
    return true;
  }

  const button = document.getElementById("show-shortcuts");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const menu = button.closest("details");
      menu.removeAttribute("open");
      menu.querySelector("summary").focus();
      showSheet();
    });
  }
})();
