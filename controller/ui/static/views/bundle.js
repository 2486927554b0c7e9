// Bundle: its owners and load over time, why it was moved, why it was left, what its moves realised.

import { button } from "../act.js";
import { about, getJson } from "../api.js";
import { Lines } from "../charts.js";
import { facts, h, plainTable, region, right, section, since, to } from "../dom.js";
import { percent, rate, time } from "../format.js";
import { Table } from "../table.js";
import { commandSection } from "./commands.js";
import { decisionList } from "./decisions.js";
import { overrideSection } from "./now.js";

export const bundle = {
  title: (name) => name,
  depends: ["seq", "evidence"],
  every_ms: 3000,
  load: ({ name, signal }) => getJson(about("bundle", name), signal),
  mount,
};

function mount(root, context) {
  const head = h("header.head");
  const owners = h("div");
  const chart = new Lines(
    { label: "Traffic of the last 24 hours", height: 150, format: (value) => rate(value, "B/s") },
  );
  const decisions = h("div");
  const stayed = h("div");
  const realised = h("div");
  const wishes = h("div");
  const commands = h("div");
  const journal = new Table({
    label: "Journal of this bundle",
    key: (row) => row.seq,
    columns: [
      { name: "Seq", align: "right", cell: (row) => String(row.seq) },
      { name: "At (UTC)", cell: (row) => time(row.at_ms) },
      { name: "What", cell: (row) => [row.state || row.kind, row.epoch === null ? "" : ` e${row.epoch}`] },
      { name: "Brokers", cell: (row) => row.parties.flatMap((party, at) => [at ? " → " : "", to("broker", party)]) },
      { name: "Reason", grow: true, wide: true, cell: (row) => row.reason },
    ],
  });
  root.append(
    head,
    section("Owners", owners),
    section("Traffic", chart.element),
    wishes,
    commands,
    decisions,
    stayed,
    realised,
    section("Journal", journal.element),
  );
  const slow = () => {
    getJson(about("load", context.name), context.signal).then((found) => chart.update({
      at_ms: found.at_ms, lines: [{ name: "bytes in and out", values: found.throughput, kind: "main" }],
    }), () => {});
    getJson(about("realised/bundle", context.name), context.signal).then(
      (found) => region(realised, found.rows, realisedSection),
      () => {},
    );
  };
  slow();
  const again = setInterval(slow, 30000);
  return {
    leave: () => clearInterval(again),
    update(data) {
      region(head, [data.now, data.sentence], () => headOf(data, context));
      region(owners, data.owners, ownerBand);
      region(
        decisions,
        data.decisions,
        (rows) => section("Why it was moved", decisionList(rows, "Nothing was decided about it in the last 24 hours.")),
      );
      region(stayed, data.stayed, stayedSection);
      region(wishes, data.overrides, (found) => overrideSection(found, context));
      region(commands, data.commands, commandSection);
      journal.update(data.entries);
    },
  };
}

function headOf({ now, sentence }, context) {
  const args = { bundle: now.bundle };
  const off = { broker: { label: "Off this broker", placeholder: "broker:port", value: now.owner } };
  return [
    h("h1", null, now.bundle),
    h("p.lead", null, sentence),
    facts([
      ["Owner", now.owner ? to("broker", now.owner) : "nobody"],
      ["On its way to", now.to ? to("broker", now.to) : ""],
      ["State", now.state],
      ["Epoch", String(now.epoch)],
      ["Of its namespace", percent(now.share)],
      ["Since", since(now.entry_at_ms)],
      ["Grace period from", since(now.moved_at_ms)],
    ]),
    h("p.buttons", null,
      button(
        context,
        "Unload",
        {
          kind: "unload_bundle",
          title: "Unload the bundle",
          danger: true,
          args,
          fields: { to: { label: "To (empty: placement chooses)", placeholder: "broker:port", optional: true } },
        },
      ),
      button(
        context,
        "Pin",
        {
          kind: "override",
          title: "Pin the bundle",
          args: { ...args, override: "pin" },
          fields: { broker: { label: "To this broker", placeholder: "broker:port", value: now.owner } },
        },
      ),
      button(
        context,
        "Freeze",
        {
          kind: "override",
          title: "Freeze the bundle",
          text: "No round moves or splits it.",
          args: { ...args, override: "freeze" },
        },
      ),
      button(
        context,
        "Avoid",
        { kind: "override", title: "Keep the bundle off a broker", args: { ...args, override: "avoid" }, fields: off },
      )),
  ];
}

function ownerBand(owners) {
  if (!owners.length) return h("p.empty", null, "The journal knows of no owner, or only of older ones.");
  const from = (row) => h("time", { datetime: new Date(row.at_ms).toISOString() }, time(row.at_ms));
  const epoch = (row) => (row.epoch === null ? "" : `, epoch ${row.epoch}`);
  return h(
    "ol.owners",
    null,
    owners.map((row) => h("li", null, to("broker", row.owner), h("small", null, "from ", from(row), epoch(row)))),
  );
}

function stayedSection({ sentence, times }) {
  return section("Why it was left", h("p.lead", null, sentence), times.length
    ? plainTable(
      "Rounds that considered it and left it",
      ["Round", "From", "Best target", "Source after", "Target after", "Result"],
      times.map(stayedCells),
    )
    : "");
}

const stayedCells = (row) => [
  [to("round", row.round_id), " ", since(row.at_ms)],
  to("broker", row.source),
  to("broker", row.target),
  right(row.source_after),
  right(row.target_after),
  row.result,
];

/** What moves were predicted to change, and what they did. */
export function realisedSection(rows) {
  if (!rows.length) return "";
  const cells = (row) => [
    to("round", row.round_id),
    to("broker", row.broker),
    right(String(row.moves)),
    [row.text, row.half_width <= 1 ? h("small", null, ` ±${(100 * row.half_width).toFixed(1)} %`) : ""],
  ];
  const props = (at) => ({ "data-inside": String(rows[at].inside) });
  return section(
    "Predicted and realised",
    plainTable("Predicted and realised", ["Round", "Broker", "Moves", "CPU of its limit"], rows.map(cells), { props }),
  );
}
