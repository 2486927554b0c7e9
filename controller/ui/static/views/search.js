// Search: topic to bundle to owner; brokers, bundles, namespaces, rounds and reasons by a part of the name.

import { getJson } from "../api.js";
import { h, plainTable, region, section, to } from "../dom.js";
import { count } from "../format.js";

export const search = {
  title: () => "Search",
  depends: ["seq"],
  every_ms: 3000,
  load: ({ query, signal }) => getJson(`/api/search?q=${encodeURIComponent(query.get("q") || "")}`, signal),
  mount,
};

const MOST_HITS = 50; // of a kind, as the server sends
const HEADS = { reason: "Reasons", broker: "Brokers", round: "Rounds", namespace: "Namespaces", bundle: "Bundles" };

function mount(root, context) {
  const box = document.getElementById("query");
  if (document.activeElement !== box) box.value = context.query.get("q") || "";
  if (!context.query.get("q")) box.focus();
  const found = h("div");
  root.append(h("h1", null, "Search"), found);
  return { update: (data) => region(found, data, results) };
}

function results({ query, topics, hits }) {
  if (!query) return h(
    "p.lead",
    null,
    "Type a topic (persistent://tenant/namespace/topic), a part of the name of a bundle, broker, namespace or round, ",
    "or a reason such as 412.",
  );
  const kinds = Object.keys(HEADS).map(
    (kind) => [kind, hits.filter((hit) => hit.kind === kind)],
  ).filter(([, rows]) => rows.length);
  if (!topics.length && !kinds.length) return h("p.lead", null, `Nothing here is named ${query}.`);
  return [topics.length ? topicSection(topics) : "", kinds.map(([kind, rows]) => hitSection(kind, rows))];
}

function topicCells(row) {
  return [row.topic, to("bundle", row.bundle) || "none", to("broker", row.owner) || "nobody", row.state];
}

function hitSection(kind, rows) {
  const more = rows.length === MOST_HITS ? " or more" : "";
  return section(`${HEADS[kind]}: ${rows.length}${more}`, h("ul.list", null, rows.map(hitRow)));
}

function topicSection(topics) {
  const created = topics.some((row) => row.created);
  return section(created ? `Topic: ${count(topics.length, "partition")}` : "Topic", created ? "" : h(
    "p.quiet",
    null,
    "Not created through Ballast; by its name it belongs here:",
  ),
    plainTable("Topics", ["Topic", "Bundle", "Owner", "State"], topics.map(topicCells)));
}

function hitRow(hit) {
  return h("li", null, linkOf(hit), h("small", null, hit.detail));
}

function linkOf({ kind, name }) {
  if (kind === "reason") return h("b", null, name);
  if (kind === "namespace") return h("a", { href: `/search?q=${encodeURIComponent(`${name}/`)}` }, name);
  return to(kind, name);
}
