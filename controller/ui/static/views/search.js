// Search: topic to bundle to owner; brokers, bundles, namespaces, rounds and reasons by a part of the name.

import { getJson } from "../api.js";
import { address, h, region, section, to } from "../dom.js";
import { count } from "../format.js";

export const search = {
  title: () => "Search",
  depends: ["seq"],
  every_ms: 3000,
  load: ({ query, signal }) => getJson(`/api/search?q=${encodeURIComponent(query.get("q") || "")}`, signal),
  mount,
};

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
  if (!query) return h("p.lead", null, "Type a topic (persistent://tenant/namespace/topic), or a part of the name of a bundle, broker, namespace or round, or a reason such as 412.");
  const kinds = Object.keys(HEADS).map((kind) => [kind, hits.filter((hit) => hit.kind === kind)]).filter(([, rows]) => rows.length);
  if (!topics.length && !kinds.length) return h("p.lead", null, `Nothing here is named ${query}.`);
  return [topics.length ? topicSection(topics) : "", kinds.map(([kind, rows]) => section(`${HEADS[kind]}: ${rows.length}${rows.length === 50 ? " or more" : ""}`, h("ul.list", null, rows.map(hitRow))))];
}

function topicSection(topics) {
  const created = topics.some((row) => row.created);
  return section(created ? `Topic: ${count(topics.length, "partition")}` : "Topic", created ? "" : h("p.quiet", null, "Not created through Ballast; by its name it belongs here:"),
    h("div.scroll", null, h("table", { "aria-label": "Topics" },
      h("thead", null, h("tr", null, ["Topic", "Bundle", "Owner", "State"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, topics.map((row) => h("tr", null, h("td", null, row.topic), h("td", null, row.bundle ? to("bundle", row.bundle) : "none"), h("td", null, row.owner ? to("broker", row.owner) : "nobody"), h("td", null, row.state || "")))))));
}

function hitRow(hit) {
  const link = hit.kind === "reason" ? h("b", null, hit.name) : hit.kind === "namespace" ? h("a", { href: `/search?q=${encodeURIComponent(`${hit.name}/`)}` }, hit.name) : h("a.id", { href: address(hit.kind, hit.name) }, hit.name);
  return h("li", null, link, h("small", null, hit.detail));
}
