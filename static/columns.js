// Choosing and moving columns on the order form. Without this file the same buttons ask the server.
(() => {
  "use strict";

  const { say } = globalThis.exportdesk;
  const card = document.getElementById("field-options-columns");
  const said = document.getElementById("columns-said");

  const rows = () => [...card.querySelectorAll(".columns > li")];
  const box = (row) => row.querySelector("input");

  // The preview listens for changes.
  const tell = () => card.dispatchEvent(new Event("change", { bubbles: true }));

  // Past the next one that is chosen too: those left out have no place in the file.
  function move(button, step) {
    const row = button.closest("li");
    const chosen = rows().filter((each) => box(each).checked);
    const at = chosen.indexOf(row);
    const other = chosen[at + step];
    if (other) {
      if (step < 0) other.before(row);
      else other.after(row);
      button.focus();
      tell();
    }
    said.textContent = say("{column}: column {place} of {count}", { column: box(row).value, place: other ? at + step + 1 : at + 1, count: chosen.length });
  }

  function tickAll() {
    const place = (row) => Number(row.dataset.place ?? Infinity);
    card.querySelector(".columns").append(...rows().sort((one, other) => place(one) - place(other)));
    for (const row of rows()) box(row).checked = row.dataset.place !== undefined;
    tell();
  }

  function tickNone() {
    for (const row of rows()) box(row).checked = false;
    tell();
  }

  card.addEventListener("click", (event) => {
    const button = event.target.closest('button[name="columns"]');
    if (!button || (button.value === "all" && !card.querySelector('[name="columns.known"]'))) return;
    event.preventDefault();
    if (button.value === "all") tickAll();
    else if (button.value === "none") tickNone();
    else move(button, button.value.startsWith("up:") ? -1 : 1);
  });
})();
