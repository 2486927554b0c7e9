// Tables as tables. Long ones only have the rows that can be seen; a row that has not changed keeps its element, so
// that focus and selection survive an update.

import { h } from "./dom.js";

const ROW_PX = 30; // as in style.css
const SHORT = 120; // rows that are all drawn
const AROUND = 12; // rows drawn above and below what is seen
const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** The first arrow key, or j or k, that is pressed outside of all rows: goes to the first row that is seen. Where none
 * is, arrows scroll, and j and k go to the first of all. Returns whether it went anywhere. */
export function enterRows(view, event) {
  if (!STEPS[event.key] || event.target.closest("tbody tr")) return false;
  const rows = [...view.querySelectorAll("tbody tr")].filter((row) => row.getClientRects().length && controls(row).length);
  const row = rows.find(isSeen) || (event.key.length === 1 && rows[0]);
  if (row) controls(row)[0].focus();
  return Boolean(row);
}

/**
 * `columns`: {name, cell(row), align: "right", wide: true (not on a phone), by(row) to sort by, grow}.
 * `key(row)`: what identifies a row. `empty`: what to say without rows.
 */
export class Table {
  constructor({ label, columns, key, empty, sort }) {
    this.columns = columns;
    this.key = key;
    this.empty = empty || "Nothing to show.";
    this.order = sort || null; // [column, descending]
    this.rows = [];
    this.kept = new Map();
    this.head = h("tr", null, columns.map((column, at) => this.headCell(column, at)));
    this.body = h("tbody");
    this.table = h("table", { "aria-label": label }, h("thead", null, this.head), this.body);
    this.note = h("p.empty", { hidden: true });
    this.element = h("div.scroll", { onscroll: () => this.draw() }, this.table, this.note);
    this.element.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  headCell(column, at) {
    const cell = h("th", { scope: "col", class: classes(column) });
    if (!column.by) {
      cell.append(column.name);
      return cell;
    }
    cell.append(h("button.sort", { type: "button", onclick: () => this.sortBy(at) }, column.name));
    return cell;
  }

  sortBy(at) {
    const again = this.order && this.order[0] === at;
    this.order = [at, again ? !this.order[1] : Boolean(this.columns[at].descending)];
    this.update(this.rows);
  }

  update(rows) {
    this.rows = this.order ? sorted(rows, this.columns[this.order[0]].by, this.order[1]) : rows;
    [...this.head.children].forEach((cell, at) => {
      const own = this.order && this.order[0] === at;
      if (own) cell.setAttribute("aria-sort", this.order[1] ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    this.element.classList.toggle("long", rows.length > SHORT);
    this.table.hidden = !rows.length;
    this.note.hidden = Boolean(rows.length);
    this.note.textContent = this.empty;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.draw();
  }

  draw() {
    const [first, last] = this.seen();
    const kept = new Map();
    const drawn = this.rows.slice(first, last).map((row, at) => {
      const key = String(this.key(row));
      const shown = JSON.stringify(row);
      let element = this.kept.get(key);
      if (!element || element.shown !== shown) {
        element = this.row(row);
        element.shown = shown;
        element.dataset.key = key;
      }
      element.setAttribute("aria-rowindex", first + at + 2);
      kept.set(key, element);
      return element;
    });
    this.kept = kept;
    const focus = this.focused();
    const wanted = [spacer(first, this.columns.length), ...drawn, spacer(this.rows.length - last, this.columns.length)];
    replace(this.body, wanted.filter(Boolean));
    if (focus && !this.body.contains(document.activeElement)) this.refocus(...focus);
  }

  /** The row that has the focus, and which of its links. */
  focused() {
    const row = this.body.contains(document.activeElement) && document.activeElement.closest("tr");
    return row && [row.dataset.key, controls(row).indexOf(document.activeElement)];
  }

  /** A row that has changed is another element by now. */
  refocus(key, place) {
    const found = this.kept.has(key) ? controls(this.kept.get(key)) : [];
    if (found.length) (found[place] || found[0]).focus({ preventScroll: true });
  }

  seen() {
    if (this.rows.length <= SHORT) return [0, this.rows.length];
    const above = Math.floor(this.element.scrollTop / ROW_PX);
    const fits = Math.ceil((this.element.clientHeight || 600) / ROW_PX);
    return [Math.max(0, above - AROUND), Math.min(this.rows.length, above + fits + AROUND)];
  }

  row(row) {
    return h("tr", null, this.columns.map((column) => h("td", { class: classes(column) }, column.cell(row))));
  }

  /** Arrow keys, or j and k, go from row to row. */
  step(event) {
    const by = STEPS[event.key];
    const row = event.target.closest && event.target.closest("tbody tr");
    if (!by || !row || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = controls(row).indexOf(event.target);
    const next = by > 0 ? row.nextElementSibling : row.previousElementSibling;
    const found = next ? controls(next) : [];
    if (!found.length) return;
    event.preventDefault();
    (found[Math.max(0, place)] || found[0]).focus();
  }
}

const controls = (row) => [...row.querySelectorAll("a, button")];

function isSeen(row) {
  const { top, bottom } = row.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

function classes(column) {
  return [
    column.align === "right" && "right",
    column.wide && "wide",
    column.grow && "grow",
  ].filter(Boolean).join(" ") || null;
}

function spacer(rows, columns) {
  if (rows <= 0) return null;
  const cell = h("td", { colspan: columns });
  cell.style.height = `${rows * ROW_PX}px`;
  return h("tr.spacer", { "aria-hidden": "true" }, cell);
}

/** Puts these children into the element, leaving alone those that are in their place already. */
function replace(element, wanted) {
  const keep = new Set(wanted);
  for (const child of [...element.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((child, at) => {
    if (element.children[at] !== child) element.insertBefore(child, element.children[at] || null);
  });
}

function sorted(rows, by, descending) {
  const sign = descending ? -1 : 1;
  return rows.map((row) => [by(row), row]).sort(([a], [b]) => {
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return a < b ? -sign : sign;
  }).map(([, row]) => row);
}
