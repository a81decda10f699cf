// Long lists of choices as a combobox (WAI-ARIA 1.2, list autocomplete with manual selection). Without this file the
// same lists are ticked and searched by a button. What is chosen always stands in `.combo-chosen`, as the form's fields.
(() => {
  "use strict";

  const { say } = globalThis.exportdesk;

  class Combo {
    constructor(root) {
      this.root = root;
      this.isMultiple = root.dataset.combo === "several";
      this.input = root.querySelector(".combo-row input");
      this.chosen = root.querySelector(".combo-chosen");
      this.found = root.querySelector(".combo-found");
      this.active = -1;
      this.found.hidden = true;
      for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": `${this.input.id}-list` })) this.input.setAttribute(name, value);
      this.root.removeAttribute("role");
      this.root.removeAttribute("aria-labelledby");
      for (const item of this.chosen.children) this.dressChosen(item);
      this.dress();
      this.restore();
      this.listen();
    }

    get options() { return [...this.found.querySelectorAll(".combo-list > li:not([hidden])")]; }
    get values() { return [...this.chosen.children].map((item) => item.dataset.value); }
    get isOpen() { return !this.found.hidden; }

    listen() {
      this.input.addEventListener("focus", () => this.input.select());
      this.input.addEventListener("click", () => this.open());
      this.input.addEventListener("input", () => this.open());
      this.input.addEventListener("change", (event) => event.stopPropagation());
      this.input.addEventListener("keydown", (event) => this.press(event));
      this.input.addEventListener("blur", () => this.leave());
      this.found.addEventListener("mousedown", (event) => event.preventDefault());
      this.found.addEventListener("click", (event) => {
        event.preventDefault();
        const item = event.target.closest(".combo-list > li");
        if (item) this.pick(item);
      });
      this.chosen.addEventListener("click", (event) => {
        const button = event.target.closest(".combo-remove");
        if (button) this.drop(button.closest("li"));
      });
      new MutationObserver(() => this.dress()).observe(this.found, { childList: true });
    }

    // Roles for what the server sent; what is chosen already is not offered again. A later answer to what was typed
    // leaves the keyboard where it was.
    dress() {
      const list = this.found.querySelector(".combo-list");
      if (list) {
        list.id = `${this.input.id}-list`;
        list.setAttribute("role", "listbox");
        list.setAttribute("aria-label", this.root.querySelector("label").textContent.trim());
      }
      for (const item of this.found.querySelectorAll(".combo-list > li")) item.hidden = this.isMultiple && this.values.includes(item.dataset.value);
      this.options.forEach((item, index) => {
        item.id = `${this.input.id}-option-${index}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", "false");
      });
      this.activate(this.options.findIndex((item) => item.dataset.value === this.activeValue));
    }

    dressChosen(item) {
      if (!this.isMultiple) return;
      const button = Object.assign(document.createElement("button"), { type: "button", className: "combo-remove", textContent: item.dataset.label });
      button.setAttribute("aria-label", say("Remove {choice}", { choice: item.dataset.label }));
      item.querySelector(".option").hidden = true;
      item.append(button);
    }

    open() {
      this.found.hidden = false;
      this.input.setAttribute("aria-expanded", "true");
    }

    close() {
      this.found.hidden = true;
      this.input.setAttribute("aria-expanded", "false");
      this.activate(-1);
    }

    activate(index) {
      const options = this.options;
      this.active = options.length ? Math.max(-1, Math.min(index, options.length - 1)) : -1;
      this.activeValue = options[this.active]?.dataset.value;
      options.forEach((item, n) => item.setAttribute("aria-selected", String(n === this.active)));
      if (this.active < 0) this.input.removeAttribute("aria-activedescendant");
      else {
        this.input.setAttribute("aria-activedescendant", options[this.active].id);
        options[this.active].scrollIntoView({ block: "nearest" });
      }
    }

    press(event) {
      const count = this.options.length;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const step = event.key === "ArrowDown" ? 1 : -1;
        const start = this.active < 0 && step < 0 ? count : this.active;
        this.open();
        if (count) this.activate((start + step + count) % count);
      } else if (event.key === "Enter" && this.isOpen) {
        event.preventDefault();
        const item = this.options[this.active];
        if (item) this.pick(item);
        else if (this.isTyped && count === 1) this.pick(this.options[0]);
      } else if (event.key === "Escape" && (this.isOpen || this.input.value)) {
        event.preventDefault();
        event.stopPropagation();
        if (this.isOpen) this.close();
        this.restore();
      } else if (event.key === "Backspace" && this.isMultiple && !this.input.value && this.chosen.lastElementChild) {
        this.drop(this.chosen.lastElementChild);
      }
    }

    get isTyped() { return this.input.value.trim() !== ""; }

    pick(item) {
      const copy = item.cloneNode(true);
      for (const name of ["id", "role", "aria-selected"]) copy.removeAttribute(name);
      copy.querySelector("input").checked = true;
      if (this.isMultiple) {
        this.chosen.append(copy);
        this.dressChosen(copy);
      } else this.chosen.replaceChildren(copy);
      this.close();
      this.restore();
      this.dress();
      this.tell();
    }

    drop(item) {
      item.remove();
      this.dress();
      this.input.focus();
      this.tell();
    }

    // Text that chose nothing is not kept; an emptied field is no choice.
    leave() {
      this.close();
      if (!this.isMultiple && !this.isTyped && this.values.length) {
        this.chosen.replaceChildren();
        this.tell();
      }
      this.restore();
    }

    restore() {
      const label = this.isMultiple ? "" : this.chosen.firstElementChild?.dataset.label ?? "";
      if (this.input.value !== label) this.input.value = label;
    }

    // The preview listens for changes.
    tell() { this.chosen.dispatchEvent(new Event("change", { bubbles: true })); }
  }

  for (const root of document.querySelectorAll("[data-combo]")) new Combo(root);
})();
