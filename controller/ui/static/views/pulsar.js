// Pulsar: what Ballast requires of the cluster, the orders that are open, and how orders of the last hour ended.

import { getJson } from "../api.js";
import { h, region, section, since, to } from "../dom.js";
import { count, duration } from "../format.js";
import { Table } from "../table.js";

export const pulsar = {
  title: () => "Pulsar",
  depends: ["seq"],
  load: ({ signal }) => getJson("/api/pulsar", signal),
  mount,
};

function mount(root) {
  const head = h("header.head");
  const requirements = new Table({
    label: "Requirements",
    key: (row) => `${row.broker} ${row.requirement}`,
    columns: [
      {
        name: "",
        cell: (row) => h(
          "span.mark",
          { "data-mark": row.state === "ok" ? "ok" : row.state === "advice" ? "" : "gone" },
          row.state,
        ),
        by: (row) => row.state,
      },
      {
        name: "Broker",
        cell: (row) => (row.broker === "all" ? "all" : to("broker", row.broker)),
        by: (row) => row.broker,
      },
      { name: "Requirement", cell: (row) => row.requirement, by: (row) => row.requirement },
      { name: "Found", cell: (row) => row.found },
      { name: "Remedy", grow: true, wide: true, cell: (row) => row.remedy },
    ],
  });
  const orders = new Table({
    label: "Open orders",
    key: (row) => row.id,
    empty: "No order is open.",
    columns: [
      { name: "Order", cell: (row) => row.kind },
      { name: "Bundle", cell: (row) => to("bundle", row.bundle), grow: true },
      { name: "From", cell: (row) => to("broker", row.source) },
      { name: "To", cell: (row) => (row.target ? to("broker", row.target) : "Pulsar chooses") },
      { name: "Reason", wide: true, cell: (row) => row.reason },
      { name: "Open for", align: "right", cell: (row) => since(row.at_ms, "") },
    ],
  });
  const ended = new Table({
    label: "Ended orders",
    key: (row) => row.seq,
    empty: "None ended in the last hour.",
    columns: [
      { name: "Ended", cell: (row) => since(row.at_ms) },
      {
        name: "Outcome",
        cell: (row) => h(
          "span.mark",
          { "data-mark": ["moved", "split"].includes(row.outcome) ? "ok" : "gone" },
          row.outcome,
        ),
        by: (row) => row.outcome,
      },
      { name: "Bundle", cell: (row) => to("bundle", row.bundle), grow: true },
      { name: "From", wide: true, cell: (row) => (row.source ? to("broker", row.source) : "") },
      { name: "Now on", cell: (row) => (row.owner ? to("broker", row.owner) : "") },
      { name: "Took", align: "right", cell: (row) => duration(row.took_ms) },
      { name: "Detail", wide: true, cell: (row) => row.detail },
    ],
  });
  const outcomes = h("p.lead");
  const rest = h("div.view", { hidden: true });
  rest.append(
    section("Open orders", orders.element),
    section("Orders of the last hour", outcomes, ended.element),
    section("What Ballast requires", requirements.element),
  );
  root.append(head, rest);
  return {
    update(data) {
      rest.hidden = !data.driven;
      region(head, [data.driven, data.adoption, data.obstacle, data.suspects, data.blocked], () => headOf(data));
      if (!data.driven) return;
      orders.update(data.orders);
      ended.update(data.ended);
      outcomes.textContent = Object.entries(data.outcomes).map(([outcome, n]) => `${n} ${outcome}`).join(", ");
      requirements.update([...data.requirements].sort((a, b) => (a.state === "ok") - (b.state === "ok")));
    },
  };
}

function headOf(data) {
  if (!data.driven) return [h("h1", null, "Pulsar"), h("p.lead", null, "No Pulsar cluster is driven here.")];
  return [
    h("h1", null, "Pulsar"),
    h("p.lead", null, data.adoption),
    data.obstacle ? h("p.error", null, `No orders to brokers: ${data.obstacle}`) : "",
    data.suspects.map(
      (one) => h("p", null, to("broker", one.broker), ` does not answer: ${one.why || "no reason is known"}`),
    ),
    data.blocked ? h("p.quiet", null, `${count(data.blocked, "bundle waits", "bundles wait")} after orders that brought nothing.`) : "",
  ];
}
