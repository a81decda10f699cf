// Small comforts. Every page works without this file.
(() => {
  "use strict";

  const { language, locale, timeZone, say } = globalThis.exportdesk;

  document.documentElement.classList.add("scripted");

  // Times: the server writes UTC; people read the zone they chose, or else their browser's, and "2 minutes ago" stays true.
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const WEEK = 7 * 86400;
  const day = { day: "numeric", month: "short", year: "numeric", timeZone };
  const dayFormat = new Intl.DateTimeFormat(locale, day);
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone };
  const clockFormat = new Intl.DateTimeFormat(locale, clock);
  const momentFormat = new Intl.DateTimeFormat(locale, { ...day, ...clock });
  const zoneFormat = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "long", timeZone });
  const relativeFormat = new Intl.RelativeTimeFormat(language, { numeric: "always" });

  function relative(moment, now) {
    const seconds = (moment - now) / 1000;
    const away = Math.abs(seconds);
    if (away > WEEK) return dayFormat.format(moment);
    if (seconds <= 0 && away < 10) return say("just now");
    const [unit, length] = UNITS.find(([, length]) => away >= length) ?? UNITS[3];
    return relativeFormat.format(Math.sign(seconds) * Math.max(1, seconds > 0 ? Math.round(away / length) : Math.floor(away / length)), unit);
  }

  function exact(moment, now) {
    const sameDay = dayFormat.format(moment) === dayFormat.format(now);
    return (sameDay ? clockFormat : momentFormat).format(moment);
  }

  function tellTime(element, now) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) return;
    const text = element.dataset.time === "relative" ? relative(moment, now) : exact(moment, now);
    if (element.textContent !== text) element.textContent = text;
    const title = `${zoneFormat.format(moment)} (${moment.toISOString().slice(0, 19).replace("T", " ")} UTC)`;
    if (element.title !== title) element.title = title;
  }

  // Selecting all rows of the page.
  const ticks = () => [...document.querySelectorAll('.list input[name="ids"]')];

  function tellSelection() {
    const all = document.querySelector("[data-select-all]");
    if (!all) return;
    const boxes = ticks();
    const chosen = boxes.filter((box) => box.checked).length;
    all.checked = chosen > 0 && chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  }

  // What the browser can do and the server cannot know: called again for whatever is swapped in.
  function refine() {
    const now = new Date();
    for (const element of document.querySelectorAll("time[data-time]")) tellTime(element, now);
    tellSelection();
  }

  // Before the next frame is painted, so that nobody sees the server's own words flicker.
  new MutationObserver(refine).observe(document.body, { childList: true, characterData: true, subtree: true });
  setInterval(refine, 1000);
  refine();

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-all]")) for (const box of ticks()) box.checked = event.target.checked;
    if (event.target.matches(".tick")) tellSelection();
    const form = event.target.form;
    if (form?.hasAttribute("data-autosubmit") && event.target.matches("select") && !isTyped) form.requestSubmit();
  });

  // By keys each choice on the way to the wanted one is a change: then the button says when it is enough.
  let isTyped = false;
  document.addEventListener("keydown", () => { isTyped = true; }, true);
  document.addEventListener("pointerdown", () => { isTyped = false; }, true);

  // Copying.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    const label = button.querySelector("span");
    try {
      await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent.trim());
      label.textContent = say("Copied");
    } catch {
      label.textContent = say("Select and copy");
    }
    setTimeout(() => { label.textContent = say("Copy"); }, 2000);
  });

  // Asking first. Without a dialog the server asks on a page of its own.
  const dialog = document.getElementById("confirm");

  function ask(button) {
    document.getElementById("confirm-title").textContent = button.dataset.confirm;
    document.getElementById("confirm-text").textContent = button.dataset.confirmText ?? "";
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      if (dialog.returnValue === "yes") submitConfirmed(button);
    }, { once: true });
  }

  function submitConfirmed(button) {
    const mark = Object.assign(document.createElement("input"), { type: "hidden", name: "confirmed", value: "1" });
    button.form.append(mark);
    button.form.requestSubmit(button);
    mark.remove();
  }

  // A submitted form shows that it was taken, and is not sent twice.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const button = event.submitter;
    if (button?.dataset.confirm && !form.querySelector('input[name="confirmed"]') && dialog?.showModal) {
      event.preventDefault();
      ask(button);
      return;
    }
    if (!form.hasAttribute("data-once") || button?.hasAttribute("data-keep")) return;
    if (form.dataset.taken) {
      event.preventDefault();
      return;
    }
    form.dataset.taken = "1";
    for (const each of form.querySelectorAll("button")) each.setAttribute("aria-disabled", "true");
  });

  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-taken]")) {
      delete form.dataset.taken;
      for (const each of form.querySelectorAll("button")) each.removeAttribute("aria-disabled");
    }
  });

  // Finding a dataset while typing.
  document.addEventListener("input", (event) => {
    const list = event.target.dataset?.filter && document.querySelector(event.target.dataset.filter);
    if (!list) return;
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of list.children) {
      const text = item.dataset.words.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      if (!item.hidden) shown += 1;
    }
    const empty = document.querySelector("[data-filter-empty]");
    if (empty) empty.hidden = shown > 0;
  });

  // Menus close when attention goes elsewhere.
  function closeMenus(except) {
    for (const menu of document.querySelectorAll("details[data-menu][open], details.delete[open]")) {
      if (menu !== except) menu.removeAttribute("open");
    }
  }

  document.addEventListener("click", (event) => closeMenus(event.target.closest?.("details")));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.activeElement?.closest?.("details[data-menu][open], details.delete[open]");
    closeMenus(null);
    open?.querySelector("summary")?.focus();
  });

  // The person's time zone: dates such as "today" and times in workbooks are theirs.
  if (timeZone) {
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `exportdesk_zone=${timeZone}; path=${document.body.dataset.root}; max-age=31536000; samesite=lax${secure}`;
    for (const field of document.querySelectorAll('input[name="zone"]:not([data-fixed])')) {
      field.value = timeZone;
      const choice = document.querySelector("select[data-own-zone]");
      if (choice && [...choice.options].some((option) => option.value === timeZone)) choice.value = timeZone;
    }
  }

  for (const element of document.querySelectorAll(".needs-no-script")) element.remove();

  document.getElementById("summary")?.focus();
})();
