// The endpoint's form: rows for more headers. Without this file there are two empty ones.
(() => {
  "use strict";

  const { say } = globalThis.exportdesk;

  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-add-row]")) return;
    const rows = document.querySelector("[data-rows]");
    const row = rows.lastElementChild.cloneNode(true);
    const number = rows.children.length + 1;
    row.setAttribute("aria-label", say("Header {n}", { n: number }));
    for (const input of row.querySelectorAll("input")) {
      input.value = "";
      input.setAttribute("aria-label", input.getAttribute("aria-label").replace(/\d+/, String(number)));
    }
    rows.append(row);
    row.querySelector("input").focus();
  });
})();
