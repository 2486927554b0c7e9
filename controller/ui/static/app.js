// The page: addresses to views, live updates, keys, theme, log-in. Views are in views/, one file each.

import { logIn, logOut } from "./act.js";
import { getJson } from "./api.js";
import { h } from "./dom.js";
import { duration } from "./format.js";
import { enterRows } from "./table.js";
import { broker } from "./views/broker.js";
import { bundle } from "./views/bundle.js";
import { map } from "./views/map.js";
import { now } from "./views/now.js";
import { plan } from "./views/plan.js";
import { pulsar } from "./views/pulsar.js";
import { round } from "./views/round.js";
import { rounds } from "./views/rounds.js";
import { search } from "./views/search.js";

const VIEWS = { now, broker, bundle, plan, rounds, round, map, search, pulsar };
const NAV = [
  ["now", "Now", "n"],
  ["plan", "Next round", "x"],
  ["rounds", "Rounds", "r"],
  ["map", "Map", "m"],
  ["search", "Search", "s"],
  ["pulsar", "Pulsar", "p"],
];
const LEAST_BETWEEN_MS = 1000; // two readings of a view
const AFTER_G_MS = 1500; // for the second key
const QUIET_AFTER_MS = 10000; // without an event stream: say that the page is not live

const $ = (id) => document.getElementById(id);
const page = { session: null, versions: null, clock_ms: 0, shown: null, stream: null };

// ------------------------------------------------------------ addresses

function parse(path) {
  const [kind, ...rest] = path.replace(/^\/+/, "").split("/");
  const name = rest.map((part) => decode(part)).join("/");
  return VIEWS[kind || "now"] ? { kind: kind || "now", name } : { kind: "now", name: "" };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function go(path, replace) {
  if (path !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", path);
  show();
  scrollTo(0, 0);
}

function show() {
  const { kind, name } = parse(location.pathname);
  const query = new URLSearchParams(location.search);
  if (page.shown) page.shown.leave();
  document.body.dataset.view = kind;
  delete document.body.dataset.ready;
  for (const link of $("nav").children) {
    if (link.dataset.kind === kind) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page.shown = new Shown(VIEWS[kind], kind, name, query);
  if (document.activeElement === document.body || !document.activeElement) $("view").focus({ preventScroll: true });
}

/** One view on the page, from its opening until another is opened. */
class Shown {
  constructor(view, kind, name, query) {
    Object.assign(
      this,
      { view, kind, name, query, left: new AbortController(), last_ms: 0, seen: "", again: 0, busy: false },
    );
    this.root = h("div.view", { "data-kind": kind, hidden: true }); // an empty frame would look like an empty cluster
    this.instead = h("div.view");
    $("view").replaceChildren(this.root, this.instead);
    document.title = `${view.title(name)} · ${$("cluster").textContent}`;
    this.context = {
      name,
      query,
      go,
      session: () => page.session,
      named: session,
      signal: this.left.signal,
      reload: () => this.read(),
      ready: () => this.ready(),
    };
    this.parts = view.mount(this.root, this.context);
    this.read();
  }

  leave() {
    this.left.abort();
    clearTimeout(this.again);
    if (this.parts.leave) this.parts.leave();
  }

  /** Something has changed: read again if this view shows it, but not more often than it can bear. */
  heard(versions) {
    const seen = JSON.stringify((this.view.depends || []).map((part) => versions[part]));
    if (seen === this.seen || document.hidden) return;
    const wait_ms = Math.max(0, this.last_ms + (this.view.every_ms || LEAST_BETWEEN_MS) - performance.now());
    clearTimeout(this.again);
    this.again = setTimeout(() => this.read(), wait_ms);
  }

  /** Read again what may differ although the tables have not changed: whether the controller lives. */
  refresh() {
    const { at_most_ms } = this.parts;
    if (at_most_ms && !document.hidden && performance.now() - this.last_ms > at_most_ms) this.read();
  }

  async read() {
    if (this.busy) return;
    this.busy = true;
    this.last_ms = performance.now();
    this.seen = JSON.stringify((this.view.depends || []).map((part) => (page.versions || {})[part]));
    try {
      const data = await this.view.load(this.context);
      if (this.left.signal.aborted) return;
      this.root.hidden = false;
      this.instead.replaceChildren();
      this.parts.update(data);
      notice("");
      if (!this.parts.late) this.ready();
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    } finally {
      this.busy = false;
    }
  }

  ready() {
    if (!this.left.signal.aborted) requestAnimationFrame(() => (document.body.dataset.ready = this.kind));
  }

  fail(error) {
    if (error.status === undefined) console.error(error);
    notice(error.message);
    if (this.root.hidden) this.instead.replaceChildren(...whereNext(this.kind, this.name, error));
    if (error.error === "no_tables" || error.status === 0) this.again = setTimeout(() => this.read(), 2000);
    document.body.dataset.ready = "error";
  }
}

/** In place of a view that has nothing to show. */
function whereNext(kind, name, error) {
  const heading = h("h1", null, name || VIEWS[kind].title(name));
  if (error.status !== 404 || !name) return [heading, h("p.empty", null, "Nothing to show yet. This page tries again.")];
  return [
    heading,
    h("p.empty", null, `There is no such ${kind}, or it was longer ago than the tables go back.`),
    h("p.links", null, h("a", { href: `/search?q=${encodeURIComponent(name)}` }, "Search for it"), " ",
      h("a", { href: "/now" }, "Now")),
  ];
}

export function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// ------------------------------------------------------------ live

function follow() {
  if (page.stream) page.stream.close();
  page.stream = new EventSource("/api/live");
  page.stream.onmessage = (event) => {
    page.versions = JSON.parse(event.data);
    page.clock_ms = page.versions.now_ms - Date.now();
    live(true);
    if (page.shown) page.shown.heard(page.versions);
  };
  page.stream.onerror = () => setTimeout(() => page.stream.readyState !== 1 && live(false), QUIET_AFTER_MS);
}

function live(is) {
  document.body.dataset.live = is ? "yes" : "no";
  $("live").title = is ? "Live: changes show within a second" : "Not live: ballast ui does not answer";
}

function tick() {
  if (page.shown && page.stream) page.shown.refresh();
  ages();
}

function ages() {
  const now_ms = Date.now() + page.clock_ms;
  for (const element of document.querySelectorAll("time[data-at]")) {
    const text = `${duration(Math.max(0, now_ms - Number(element.dataset.at)))} ${element.dataset.words}`.trimEnd();
    if (element.textContent !== text) element.textContent = text;
  }
}

// ------------------------------------------------------------ theme, session, keys

function theme(wanted) {
  const kept = wanted || localStorage.getItem("theme") || "auto";
  localStorage.setItem("theme", kept);
  if (kept === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = kept;
  $("theme").textContent = { auto: "◐", light: "☀", dark: "☾" }[kept];
  $("theme").setAttribute("aria-label", `Colours: ${kept}. Change`);
  document.dispatchEvent(new CustomEvent("theme"));
}

function nextTheme() {
  theme({ auto: "light", light: "dark", dark: "auto" }[localStorage.getItem("theme") || "auto"]);
}

async function session() {
  page.session = await getJson("/api/session");
  page.clock_ms = page.session.now_ms - Date.now();
  if (page.session.cluster) $("cluster").textContent = page.session.cluster;
  const { name, can_log_in } = page.session;
  $("who").replaceChildren(
    name ? h(
      "button",
      { type: "button", title: `Acting as ${name}. Log out`, onclick: () => logOut().then(restart) },
      name,
    )
      : can_log_in ? h("button", { type: "button", onclick: () => logIn().then(restart) }, "Log in") : "");
  return page.session;
}

async function restart() {
  const known = await session();
  if (!known.reads) return logIn("This page is read with a token.").then(restart);
  follow();
  show();
  return known;
}

const HELP = [
  ["/", "search"],
  ["g n", "Now"],
  ["g x", "Next round"],
  ["g r", "Rounds"],
  ["g m", "Map"],
  ["g s", "Search"],
  ["g p", "Pulsar"],
  ["j k ↓ ↑", "next, previous row; on the map j k → ← broker, ↓ ↑ bundle"],
  ["t", "light, dark"],
  ["?", "this list"],
];

function help() {
  const dialog = $("dialog");
  dialog.replaceChildren(h("h2", null, "Keys"), h(
    "dl.keys",
    null,
    HELP.map(([key, what]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, what))),
  ),
    h("p", null, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close")));
  dialog.showModal();
}

let gone_ms = 0;

function key(event) {
  const typing = event.target.closest("input, textarea, select, dialog[open]");
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === $("query")) $("view").focus();
  if (typing) return;
  const to = NAV.find(([, , letter]) => letter === event.key);
  const there = to && !document.querySelector(`#nav [data-kind="${to[0]}"]`).hidden;
  if (there && event.timeStamp - gone_ms < AFTER_G_MS) go(`/${to[0]}`);
  else if (event.key === "/") $("query").focus();
  else if (event.key === "?") help();
  else if (event.key === "t") nextTheme();
  else {
    gone_ms = event.key === "g" ? event.timeStamp : 0;
    if (!enter(event)) return;
  }
  gone_ms = 0;
  event.preventDefault();
}

/** A key for what the view lists: its rows, or what it has instead. */
function enter(event) {
  const { parts } = page.shown || {};
  return Boolean(parts) && (parts.key ? parts.key(event) : enterRows($("view"), event));
}

function click(event) {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || url.pathname.startsWith("/static/") || url.hash) return;
  event.preventDefault();
  go(url.pathname + url.search);
}

async function start() {
  $("nav").append(
    ...NAV.map(
      ([kind, name, letter]) => h(
        "a",
        { href: `/${kind}`, "data-kind": kind, title: `${name} (g ${letter})`, hidden: kind === "pulsar" },
        name,
      ),
    ),
  );
  $("tools").append(h("span.live", { id: "live", role: "img", "aria-label": "Live" }), h("span", { id: "who" }),
    h("button", { id: "theme", type: "button", title: "Light, dark (t)", onclick: nextTheme }), h(
      "button",
      { type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: help },
      "?",
    ));
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    go(`/search?q=${encodeURIComponent($("query").value.trim())}`);
  });
  document.addEventListener("keydown", key);
  document.addEventListener("click", click);
  document.addEventListener(
    "visibilitychange",
    () => !document.hidden && page.shown && page.versions && page.shown.heard(page.versions),
  );
  document.addEventListener("log-in-needed", () => $("dialog").open || logIn("The session has ended.").then(restart));
  addEventListener("popstate", show);
  theme();
  setInterval(tick, 1000);
  new MutationObserver(ages).observe($("view"), { childList: true, subtree: true });
  try {
    const known = await restart();
    if (known && known.reads) getJson("/api/pulsar").then(
      (found) => ($("nav").querySelector('[data-kind="pulsar"]').hidden = !found.driven),
      () => {},
    );
  } catch (error) {
    notice(error.message);
    document.body.dataset.ready = "error";
  }
}

start();

