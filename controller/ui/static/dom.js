// Builds elements. Text only ever enters a page as a text node: there is no way here to pass HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("a.quiet", {href, onclick, "aria-label": …}, child, …)`. Children are nodes, texts, or empty. */
export function h(name, props, ...children) {
  return fill(document.createElement(name.split(".")[0]), name, props, children);
}

/** The same for SVG. */
export function s(name, props, ...children) {
  return fill(document.createElementNS(SVG, name.split(".")[0]), name, props, children);
}

function fill(element, name, props, children) {
  const classes = name.split(".").slice(1);
  if (classes.length) element.classList.add(...classes);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "href") element.setAttribute("href", safeAddress(value));
    else if (key === "vars") for (const [name, of] of Object.entries(value)) element.style.setProperty(name, of);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter(present).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function present(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}

/** Only addresses of this page: a name from the cluster must not become a `javascript:` link. */
function safeAddress(address) {
  return /^(\/(?!\/)|#)/.test(address) ? address : "#";
}

/** A sentence of the server; what stands between backticks is shown as code. */
export function prose(text) {
  return String(text).split("`").map((part, at) => (at % 2 ? h("code", null, part) : part));
}

/** Renders into `element` again only if `data` differs from what was rendered last. */
export function region(element, data, render) {
  const shown = JSON.stringify(data);
  if (element.shown === shown) return;
  element.shown = shown;
  element.replaceChildren(...[render(data)].flat(3).filter(present));
}

/** The address of a view about something; names may contain slashes, which stay. */
export function address(kind, name) {
  return `/${kind}/${String(name).split("/").map(encodeURIComponent).join("/").replaceAll("%3A", ":")}`;
}

/** A link to a broker, bundle or round; nothing where there is no name. */
export function to(kind, name, text) {
  return name ? h("a.id", { href: address(kind, name) }, text || name) : "";
}

/** A moment as its age, kept up to date by the page; the full time is its tooltip. */
export function since(at_ms, words) {
  if (!at_ms) return "";
  const iso = new Date(at_ms).toISOString();
  return h(
    "time",
    {
      datetime: iso,
      title: `${iso.replace("T", " ").slice(0, 19)} UTC`,
      "data-at": at_ms,
      "data-words": words === undefined ? "ago" : words,
    },
  );
}

/** A section with a heading. */
export function section(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", null, title), ...children);
}

const MOST_SIDE_BY_SIDE = 3; // columns; on a phone, each row of a wider table becomes a block of lines

/** A short table that is drawn whole: `rows` of cells, some of them `right(…)`. */
export function plainTable(label, names, rows, { caption, props } = {}) {
  const cell = (content, at) => {
    const column = { "data-column": names[at] };
    return content && content.classed ? h(`td.${content.classed}`, column, content.content) : h("td", column, content);
  };
  const head = h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name))));
  const body = rows.map((cells, at) => h("tr", props ? props(at) : null, cells.map(cell)));
  const table = names.length > MOST_SIDE_BY_SIDE ? "table.stacks" : "table";
  const above = caption ? h("caption", null, caption) : "";
  return h("div.scroll", null, h(table, { "aria-label": label }, above, head, h("tbody", null, body)));
}

/** The content of a cell that is aligned to the right. */
export const right = (content) => ({ classed: "right", content });

/** Names and values. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => present(value));
  return h("dl.facts", null, shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** Reason code with its words, coloured by band and marked by its number. */
export function reason(code, words, band) {
  if (!code) return "";
  return h("span.reason", { "data-band": band || bandOf(code), title: code }, words || code);
}

function bandOf(code) {
  return { 1: "normal", 2: "throttled", 3: "config", 4: "hard" }[String(code)[0]] || "normal";
}
