// Broker: its load over a day, what it holds, and why rounds took something off it or gave it some.

import { button } from "../act.js";
import { about, getJson } from "../api.js";
import { bar, Lines } from "../charts.js";
import { facts, h, plainTable, reason, region, right, section, since, to } from "../dom.js";
import { count, percent, rate, resource } from "../format.js";
import { Table } from "../table.js";
import { commandSection } from "./commands.js";
import { candidates, decisionList } from "./decisions.js";
import { overrideSection } from "./now.js";

export const broker = {
  title: (name) => name,
  depends: ["seq", "evidence"],
  every_ms: 3000,
  load: ({ name, signal }) => getJson(about("broker", name), signal),
  mount,
};

function mount(root, context) {
  const head = h("header.head");
  const chart = new Lines({ label: "Load of the last 24 hours", height: 170 });
  const now = h("div");
  const why = h("div");
  const decisions = h("div");
  const wishes = h("div");
  const commands = h("div");
  const heading = h("h2", null, "Bundles");
  const bundles = new Table({
    label: "Bundles of this broker",
    key: (row) => row.bundle,
    empty: "It holds no bundle.",
    columns: [
      { name: "Bundle", cell: (row) => to("bundle", row.bundle), by: (row) => row.bundle, grow: true },
      { name: "State", wide: true, cell: (row) => row.state, by: (row) => row.state },
      {
        name: "Bytes",
        align: "right",
        descending: true,
        cell: (row) => rate(row.throughput, "B/s"),
        by: (row) => row.throughput,
      },
      {
        name: "Messages",
        align: "right",
        descending: true,
        cell: (row) => rate(row.msg_rate, "/s"),
        by: (row) => row.msg_rate,
      },
      {
        name: "Moved in round of",
        wide: true,
        align: "right",
        descending: true,
        cell: (row) => since(row.moved_at_ms),
        by: (row) => row.moved_at_ms,
      },
    ],
  });
  root.append(
    head,
    section("Load", chart.element, now),
    wishes,
    commands,
    why,
    h("section", { "aria-label": "Bundles" }, heading, bundles.element),
    decisions,
  );
  return {
    update(data) {
      region(head, data.broker, () => headOf(data, context));
      const { history } = data;
      chart.update({
        at_ms: history.at_ms,
        lines: [
          { name: `load (${resource(data.worst) || "worst resource"})`, values: history.score, kind: "main" },
          { name: "level", values: history.mean, kind: "level" },
        ],
        marks: [{ name: "limit", value: data.limit, kind: "limit" }],
      });
      region(now, [data.broker.utilisations, data.limit], () => usage(data));
      region(why, [data.considered, data.as_target], () => considered(data));
      region(wishes, data.overrides, (found) => overrideSection(found, context));
      region(commands, data.commands, commandSection);
      const shown = data.bundles.length;
      heading.textContent = `Bundles: ${data.held > shown ? `the busiest ${shown} of ` : ""}${data.held}`;
      bundles.update(data.bundles);
      region(
        decisions,
        data.decisions,
        (rows) => section("Decisions of the last 24 hours", decisionList(rows, "Nothing was decided about it.")),
      );
    },
  };
}

function headOf({ broker, last_round }, context) {
  const drained = broker.drained;
  return [
    h("h1", null, broker.broker),
    facts([
      ["State", [broker.silent ? "silent" : broker.state, broker.drained ? ", drained" : "", broker.leaving ? ", leaving" : ""]],
      [
        "Last round says",
        broker.reason ? [broker.is_source ? "source: " : "", reason(broker.reason, broker.reason_words)] : "",
      ],
      ["Round", last_round ? to("round", last_round.round_id) : ""],
      ["Kind", broker.runtime],
      ["Lookup", broker.lookup_url],
      ["Data", broker.data_address],
      ["Incarnation", String(broker.incarnation)],
    ]),
    h("p.buttons", null, drained
      ? button(
        context,
        "Undrain",
        {
          kind: "undrain",
          title: "Undrain",
          text: `${broker.broker} may take bundles again.`,
          args: { broker: broker.broker },
        },
      )
      : button(
        context,
        "Drain",
        { kind: "drain", title: "Drain", danger: true, text: drainText(broker), args: { broker: broker.broker } },
      )),
  ];
}

function drainText(broker) {
  const what = `All ${count(broker.bundles, "bundle")} of ${broker.broker} move to other brokers`;
  return `${what}; it gets none until it is undrained.`;
}

function usage({ broker, limit }) {
  const known = Object.entries(broker.utilisations).filter(([, value]) => value !== null && value !== undefined);
  if (!known.length) return h("p.empty", null, "The last round knew nothing of its usage.");
  return h(
    "dl.usage",
    null,
    known.map(
      ([name, value]) => h(
        "div",
        null,
        h("dt", null, resource(name)),
        h("dd", null, bar(value, null, limit), h("b", null, percent(value))),
      ),
    ),
  );
}

const targetCells = (row) => [to("broker", row.source), to("bundle", row.bundle), right(row.target_after), row.result];

function considered({ considered: found, as_target }) {
  if (!found && !as_target.length) return "";
  return section("In the last round",
    found ? [found.sentences.map((text) => h("p.sentence", null, text)), candidates(found)] : "",
    as_target.length ? h("details", null, h("summary", null, `As a target: ${count(as_target.length, "pair")}`),
      plainTable("As a target", ["From", "Bundle", "It would come to", "Result"], as_target.map(targetCells))) : "");
}
