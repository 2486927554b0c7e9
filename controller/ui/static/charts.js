// Lines over time and bars of load, as SVG at its real width: text is never stretched.

import { h, s } from "./dom.js";
import { clock, percent, time } from "./format.js";

const HEAD = 13; // px above the highest value, for its label
const GAP = 8; // a step this many times the usual one is a gap, not a line

/**
 * A chart of lines. `at_ms`: times; `lines`: {name, values, kind (class)}; `marks`: {value, name, kind}; `format`: of
 * values; `top`: the least upper end; `onpick(at_ms)`: what a click does.
 */
export class Lines {
  constructor({ label, height = 140, format = percent, top = 0, onpick = null }) {
    Object.assign(this, { label, height, format, top, onpick, data: { at_ms: [], lines: [], marks: [] } });
    this.svg = s("svg.lines", { role: "img", "aria-label": label, height });
    this.told = h("p.told", { "aria-hidden": "true" });
    this.legend = h("p.legend");
    this.element = h("figure.chart", null, this.svg, h("figcaption", null, this.legend, this.told));
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.unpoint());
    this.svg.addEventListener("click", (event) => this.pick(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  update(data) {
    this.data = { marks: [], ...data };
    this.draw();
  }

  draw() {
    const { at_ms, lines, marks } = this.data;
    this.width = Math.max(200, this.element.clientWidth || 600);
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const known = lines.flatMap((line) => line.values).filter((value) => value !== null && !Number.isNaN(value));
    this.most = Math.max(
      this.top,
      ...marks.map((mark) => mark.value || 0),
      known.reduce((a, b) => Math.max(a, b), 0),
    ) || 1;
    [this.from, this.until] = at_ms.length ? [at_ms[0], Math.max(at_ms[at_ms.length - 1], at_ms[0] + 1)] : [0, 1];
    this.cursor = s("line.cursor", { y1: 0, y2: this.height - 16, visibility: "hidden" });
    this.svg.replaceChildren(
      ...this.grid(),
      ...marks.map((mark) => this.mark(mark)),
      ...lines.map((line) => this.line(at_ms, line)),
      this.cursor,
    );
    this.svg.setAttribute(
      "aria-label",
      `${this.label}: ${lines.map((line) => `${line.name} ${this.last(line)}`).join(", ") || "nothing is known"}`,
    );
    this.legend.replaceChildren(...[...lines, ...marks].filter((one) => one.name).map((one) =>
      h(
        "span.key",
        { "data-kind": one.kind },
        one.values ? `${one.name} ${this.last(one)}` : `${one.name} ${this.format(one.value)}`,
      )));
  }

  last(line) {
    const known = line.values.filter((value) => value !== null);
    return known.length ? this.format(known[known.length - 1]) : "unknown";
  }

  grid() {
    if (!this.data.at_ms.length) return [s("text", { x: 4, y: this.height / 2 }, "nothing is known yet")];
    const y = this.height - 3;
    return [
      s("line.base", { x1: 0, x2: this.width, y1: this.height - 16, y2: this.height - 16 }),
      s("text", { x: 0, y }, time(this.from).slice(5, 16)),
      s("text", { x: this.width, y, "text-anchor": "end" }, time(this.until).slice(5, 16)),
      s("text", { x: 0, y: 10 }, this.format(this.most)),
    ];
  }

  x(at_ms) {
    return ((at_ms - this.from) / (this.until - this.from)) * this.width;
  }

  y(value) {
    return (this.height - 18 - HEAD) * (1 - value / this.most) + HEAD;
  }

  mark({ value, kind }) {
    if (value === null || value === undefined) return s("g");
    return s("line.mark", { "data-kind": kind, x1: 0, x2: this.width, y1: this.y(value), y2: this.y(value) });
  }

  line(at_ms, { values, kind }) {
    const usual = at_ms.length > 1 ? (this.until - this.from) / (at_ms.length - 1) : 0;
    let path = "";
    let before = null;
    values.forEach((value, at) => {
      if (value === null || Number.isNaN(value)) {
        before = null;
        return;
      }
      const apart = before === null || at_ms[at] - before > GAP * usual;
      path += `${apart ? "M" : "L"}${this.x(at_ms[at]).toFixed(1)},${this.y(value).toFixed(1)}`;
      before = at_ms[at];
    });
    return s("path.line", { "data-kind": kind, d: path || "M0,0" });
  }

  nearest(event) {
    const { at_ms } = this.data;
    if (!at_ms.length) return -1;
    const share = (event.clientX - this.svg.getBoundingClientRect().left) / this.width;
    const wanted = this.from + share * (this.until - this.from);
    let low = 0;
    let high = at_ms.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (at_ms[middle] <= wanted) low = middle;
      else high = middle;
    }
    return wanted - at_ms[low] < at_ms[high] - wanted ? low : high;
  }

  point(event) {
    const at = this.nearest(event);
    if (at < 0) return;
    const x = this.x(this.data.at_ms[at]);
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, x);
    this.cursor.setAttribute("visibility", "visible");
    const values = this.data.lines.map(
      (line) => `${line.name} ${line.values[at] === null ? "unknown" : this.format(line.values[at])}`,
    );
    this.told.textContent = `${clock(this.data.at_ms[at])} UTC: ${values.join(", ")}`;
  }

  unpoint() {
    this.cursor.setAttribute("visibility", "hidden");
    this.told.textContent = "";
  }

  pick(event) {
    const at = this.nearest(event);
    if (at >= 0 && this.onpick) this.onpick(this.data.at_ms[at]);
  }
}

/** A bar of load with ticks at its level and its limit; what is over the limit says so in words as well. */
export function bar(load, level, limit) {
  if (load === null || load === undefined) return h("span.bar.unknown", null, "no reports");
  const full = Math.max(1, load);
  const share = (value) => `${(100 * Math.min(1, value / full)).toFixed(2)}%`;
  const over = limit !== null && load >= limit;
  const words = [
    `${percent(load)} of its limit`,
    level === null ? "" : `level ${percent(level)}`,
    over && "overloaded",
  ];
  const label = words.filter(Boolean).join(", ");
  return h("span.bar", { role: "img", "aria-label": label, title: label, "data-over": over },
    h("i.fill", { vars: { width: share(load) } }),
    level === null || level === undefined ? null : h("i.level", { vars: { left: share(level) } }),
    limit === null ? null : h("i.limit", { vars: { left: share(limit) } }));
}
