// Next round: what the round that comes would do now, by the strategy in charge or another. Nothing is executed.

import { getJson } from "../api.js";
import { bar } from "../charts.js";
import { facts, h, plainTable, reason, region, right, section, since, to } from "../dom.js";
import { count, percent, time } from "../format.js";
import { Table } from "../table.js";

export const plan = {
  title: () => "Next round",
  depends: ["evidence", "loads"],
  every_ms: 10000,
  load: ({ query, signal }) => {
    const strategy = query.get("strategy");
    return getJson(strategy ? `/api/plan?strategy=${encodeURIComponent(strategy)}` : "/api/plan", signal);
  },
  mount,
};

function mount(root, context) {
  const [head, actions, left, notes] = ["header.head", "div", "div", "div"].map((name) => h(name));
  const brokers = new Table({
    label: "Brokers",
    key: (row) => row.broker,
    columns: [
      { name: "Broker", cell: (row) => to("broker", row.broker), by: (row) => row.broker },
      {
        name: "Load",
        grow: true,
        descending: true,
        cell: (row) => bar(row.score, row.mean, null),
        by: (row) => row.score,
      },
      { name: "", align: "right", cell: (row) => percent(row.score) },
      { name: "Bundles", align: "right", wide: true, cell: (row) => String(row.bundles), by: (row) => row.bundles },
      { name: "Why", wide: true, cell: (row) => reason(row.reason, row.words) },
    ],
  });
  root.append(head, actions, left, notes, section("Brokers", brokers.element));
  return {
    update(data) {
      const { strategy, strategies, mode, at_ms, seq, next_round_ms } = data;
      region(head, { strategy, strategies, mode, at_ms, seq, next_round_ms }, () => headOf(data, context));
      region(actions, [data.moves, data.splits], () => actionsOf(data));
      region(left, data.left, leftOf);
      region(notes, data.notes, notesOf);
      brokers.update(data.brokers);
    },
  };
}

function headOf(data, context) {
  const choice = h(
    "select",
    {
      "aria-label": "Strategy",
      onchange: () => context.go(`/plan?strategy=${encodeURIComponent(choice.value)}`),
    },
    data.strategies.map((name) => h("option", { value: name, selected: name === data.strategy }, name)),
  );
  return [
    h("h1", null, "Next round"),
    h("p.quiet", null, "What it would do now. Nothing here is executed."),
    facts([
      ["Strategy", choice],
      ["Mode", data.mode],
      ["Due (UTC)", time(data.next_round_ms)],
      ["Loads until", since(data.at_ms)],
      ["Journal", String(data.seq)],
    ]),
  ];
}

function actionsOf({ moves, splits }) {
  if (!moves.length && !splits.length) return section("Actions", h("p.empty", null, "It would move and split nothing."));
  return [["move", moves], ["split", splits]].filter(([, rows]) => rows.length).map(([what, rows]) =>
    section(count(rows.length, what), plainTable(what, ["Bundle", "From", "To", "Effect", "Why"], rows.map(cells))));
}

function cells(row) {
  const effect = [row.source, row.target].filter((broker) => broker in row.before).map((broker) => {
    const after = row.after[broker];
    return percent(row.before[broker]) + (after === undefined ? "" : ` → ${percent(after)}`);
  });
  return [
    to("bundle", row.bundle),
    to("broker", row.source),
    to("broker", row.target),
    right(effect.join(", ")),
    reason(row.reason, row.words),
  ];
}

function notesOf(texts) {
  return section("To bear in mind", h("ul.notes", null, texts.map((text) => h("li", null, text))));
}

function leftOf(rows) {
  if (!rows.length) return "";
  const shown = rows.slice(0, 40).map((row) => [
    to("bundle", row.bundle),
    to("broker", row.source),
    reason(row.reason, row.words),
  ]);
  const more = rows.length > 40 ? h("p.quiet", null, `and ${rows.length - 40} more`) : "";
  return section("Wanted, and not done", plainTable("Left", ["Bundle", "Broker", "Because"], shown), more);
}
