// Now: what the cluster is doing, and what needs somebody.

import { button } from "../act.js";
import { getJson } from "../api.js";
import { bar, Lines } from "../charts.js";
import { address, h, prose, reason, region, section, since, to } from "../dom.js";
import { count, duration, movesOf, percent, resource, time } from "../format.js";
import { Table } from "../table.js";

const AGAIN_MS = 10000; // whether the controller lives, although nothing has changed
const ASKED_MS = 2000; // while that is being asked
const MODES = { live: "rounds act", shadow: "rounds only decide", paused: "rounds decide, and nothing moves" };

export const now = {
  title: () => "Now",
  depends: ["seq", "evidence"],
  load: ({ signal }) => getJson("/api/now", signal),
  mount,
};

function mount(root, context) {
  const problems = h("div.problems", { role: "status" });
  const top = h("div.tiles");
  const balance = new Lines(
    {
      label: "Balance score of the last 24 hours",
      height: 84,
      format: (score) => score.toFixed(0),
      top: 100,
      onpick: null,
    },
  );
  const brokers = new Table({
    label: "Brokers",
    key: (row) => row.broker,
    empty: "No broker has registered.",
    sort: [1, true],
    columns: brokerColumns(() => limit),
  });
  const flight = h("div");
  const alarms = h("div");
  const wishes = h("div");
  const waiting = h("div");
  const heading = h("h2", null, "Brokers");
  const legend = h(
    "p.legend",
    null,
    h("span.key", null, "load"),
    h("span.key", { "data-kind": "tick" }, "level it should have"),
    h("span.key", { "data-kind": "edge" }, "limit"),
  );
  root.append(
    problems,
    top,
    waiting,
    h("section", { "aria-label": "Brokers" }, heading, legend, brokers.element),
    h("div.two", null, flight, alarms),
    wishes,
  );
  let limit = null;
  return {
    at_most_ms: ASKED_MS,
    update(data) {
      limit = data.limit;
      this.at_most_ms = data.controller.alive === null ? ASKED_MS : AGAIN_MS;
      region(problems, data.problems, (found) => found.map((text) => h("p", null, prose(text))));
      const { balance: of, brokers: rows, counts, in_flight, alarms_last_hour, overrides, ...rest } = data;
      region(top, {
        ...rest,
        score: of.now,
        seq: 0,
        last_round: withoutAge(rest.last_round),
        loads: rest.loads.newest_event_ms,
        controller: steady(rest.controller),
      },
        () => tiles(data, context, balance));
      balance.update({ at_ms: of.at_ms, lines: [{ name: "balance", values: of.scores, kind: "main" }] });
      const others = ["silent", "gone", "drained", "leaving"].filter((word) => counts[word].length);
      heading.textContent = [
        `Brokers: ${counts.alive} alive`,
        ...others.map((word) => `${counts[word].length} ${word}`),
      ].join(", ");
      brokers.update(rows);
      region(flight, in_flight.map((row) => ({ ...row, age_ms: 0 })), () => flightSection(in_flight));
      region(alarms, alarms_last_hour, alarmSection);
      const plan = data.plan && { ...data.plan, runs: data.controller.journal_says_running };
      region(waiting, plan, (found) => planSection(found, context));
      region(wishes, overrides, (found) => overrideSection(found, context));
    },
  };
}

const withoutAge = (round) => round && { ...round, age_ms: 0 };

function steady(controller) {
  return { ...controller, silent_ms: controller.alive ? 0 : controller.silent_ms, stopped_ms_ago: 0 };
}

export function brokerColumns(limit) {
  return [
    { name: "Broker", cell: (row) => to("broker", row.broker), by: (row) => row.broker },
    {
      name: "Load of its worst resource",
      grow: true,
      descending: true,
      cell: (row) => bar(row.score, row.mean, limit()),
      by: (row) => row.score,
    },
    { name: "", align: "right", cell: (row) => h("b", null, percent(row.score)) },
    { name: "Resource", wide: true, cell: (row) => resource(row.worst), by: (row) => row.worst },
    {
      name: "Bundles",
      align: "right",
      descending: true,
      cell: (row) => (row.coming ? `${row.bundles} +${row.coming}` : String(row.bundles)),
      by: (row) => row.bundles,
    },
    { name: "Last round says", wide: true, cell: lastWord, by: (row) => row.reason },
  ];
}

function lastWord(row) {
  const marks = [
    row.state === "gone" && "gone",
    row.silent && "silent",
    row.drained && "drained",
    row.leaving && "leaving",
    row.is_source && "source",
  ].filter(Boolean);
  return [marks.map((mark) => h("span.mark", { "data-mark": mark }, mark)), reason(row.reason, row.reason_words)];
}

function tiles(data, context, balance) {
  const quarantined = data.quarantined_last_hour.total;
  const modes = { mode: { label: "Mode", options: Object.keys(MODES), value: data.mode } };
  const { choices, name } = data.strategy;
  const strategies = { strategy: { label: "Strategy", options: choices, value: name } };
  const score = data.balance.now;
  return [
    h("div.tile.balance", null,
      h("h2", null, "Balance"),
      h(
        "p.big",
        { title: "100: all brokers equally loaded. 100 × (1 − (highest − mean) ÷ highest)" },
        score === null ? "–" : score.toFixed(0),
        h("small", null, "of 100"),
      ),
      balance.element),
    tile("Mode", data.mode, [
      MODES[data.mode],
      data.guard_frozen && h("span.mark", { "data-mark": "gone" }, "mass-failure breaker tripped"),
    ], data.mode_set,
      button(context, "Change mode", { kind: "mode", title: "Set the mode", fields: modes })),
    tile("Strategy", data.strategy.name, [
      data.strategy.challengers.length ? `challenged by ${data.strategy.challengers.join(", ")}` : "no challengers",
      data.strategy.by_command ? "" : "as configured",
    ], data.strategy.set,
      [
        button(context, "Change strategy", { kind: "strategy", title: "Set the strategy", fields: strategies }),
        button(context, "Round now", { kind: "round_now", title: "Run a round now" }),
      ]),
    tile("Last round", data.last_round ? since(data.last_round.at_ms) : "none yet", roundWords(data.last_round)),
    tile(
      "Controller",
      controllerWord(data.controller),
      [
        controllerDetail(data.controller),
        data.loads.newest_event_ms && h("span", null, "newest load report ", since(data.loads.newest_event_ms)),
      ],
    ),
    tile(
      "Bundles",
      bundleWords(data.bundles),
      [
        count(data.namespaces, "namespace"),
        quarantined ? `${count(quarantined, "record")} quarantined in the last hour` : "",
        orderWords(data),
      ],
    ),
  ];
}

function tile(title, value, details, setter, action) {
  return h("div.tile", null, h("h2", null, title), h("p.value", null, value),
    (Array.isArray(details) ? details : [details]).filter(Boolean).map((detail) => h("p.detail", null, detail)),
    setter ? h(
      "p.detail",
      null,
      `set by ${setter.who || "somebody"} `,
      since(setter.at_ms),
      setter.why ? h("q", null, setter.why) : "",
    ) : "",
    action || "");
}

function roundWords(round) {
  if (!round) return "";
  return [
    h("span", null, to("round", round.round_id), ` by ${round.strategy}`),
    `${movesOf(round)}, ${count(round.splits, "split")}`,
    `mean load ${percent(round.mean_score)}, highest ${percent(round.max_score)}`,
  ];
}

function controllerWord(controller) {
  if (!controller.journal_says_running) return controller.instance ? "stopped" : "never started";
  if (controller.alive === null) return "started";
  return controller.alive ? "running" : "silent";
}

function controllerDetail(controller) {
  if (!controller.journal_says_running) return controller.stopped_at_ms ? h(
    "span",
    null,
    controller.failed ? "failed " : "stopped ",
    since(controller.stopped_at_ms),
    "; all below is as it was then",
  ) : "";
  if (controller.alive === null) {
    return controller.not_asked === "being asked" ? "whether it lives is being asked" : "Kafka does not tell whether it lives";
  }
  if (controller.alive) return controller.instance;
  return controller.silent_ms === null ? "never heard" : `last heard ${duration(controller.silent_ms)} ago`;
}

const bundleWords = (states) => Object.values(states).reduce((sum, n) => sum + n, 0) - (states.retired || 0) || "none";

function orderWords(data) {
  if (!data.orders) return "";
  return h("a", { href: "/pulsar" }, `${count(data.orders.open, "open order")}`);
}

function flightSection(rows) {
  return section(rows.length ? `In flight: ${rows.length}` : "In flight", rows.length
    ? h("ul.list", null, rows.slice(0, 100).map((row) => h("li", null, to("bundle", row.bundle), h(
      "span",
      null,
      row.owner ? to("broker", row.owner) : "nobody",
      " → ",
      row.to ? to("broker", row.to) : "placement chooses",
    ),
      h("small", null, row.state, " ", since(row.since_ms, "so far")))))
    : h("p.empty", null, "No bundle is on its way."));
}

function alarmSection(rows) {
  return section("Alarms of the last hour", rows.length
    ? h(
      "ul.list",
      null,
      [...rows].reverse().slice(0, 100).map(
        (row) => h(
          "li",
          null,
          h("b", null, row.reason_words || row.reason),
          row.bundle ? to("bundle", row.bundle) : to("broker", row.broker),
          h("small", null, since(row.at_ms)),
        ),
      ),
    )
    : h("p.empty", null, "None."));
}

function planSection(plan, context) {
  if (!plan) return "";
  const args = { round: plan.round_id };
  const moves = plan.moves.slice(0, 100).map((move) => h("li", null, to("bundle", move.bundle),
    h("span", null, to("broker", move.source), " → ", move.target ? to("broker", move.target) : "placement chooses")));
  const waiting = plan.runs ? "A plan waits for approval" : "A plan waited for approval when the controller stopped";
  return section(
    { waiting, approved: "An approved plan", declined: "A declined plan" }[plan.phase],
    h("p", null, "Round ", to("round", plan.round_id), ` of ${time(plan.at_ms)} UTC: `,
      plan.phase === "declined" ? "plans that need approval are held back for a while"
        : `${count(plan.moves.length, "move")} ${plan.phase === "waiting" ? "would be made" : "still to be made"}`,
      plan.who ? h("small", null, ` ${plan.phase} by ${plan.who}`, plan.why ? h("q", null, plan.why) : "") : ""),
    moves.length ? h("ul.list", null, moves) : "",
    plan.phase === "waiting" && plan.runs ? [
      button(context, "Approve", { kind: "approve", title: `Approve the plan of ${plan.round_id}`, args }),
      button(context, "Decline", { kind: "decline", title: `Decline the plan of ${plan.round_id}`, args }),
    ] : "",
  );
}

export function overrideSection(rows, context) {
  if (!rows.length) return "";
  return section(`Overrides: ${rows.length}`, h("ul.list", null, rows.map((row) => h("li", null,
    h("b", null, row.kind.replaceAll("_", " ")), row.bundle ? to("bundle", row.bundle) : h(
      "a",
      { href: `/search?q=${encodeURIComponent(row.namespace)}` },
      row.namespace,
    ),
    row.broker ? h(
      "span",
      null,
      row.kind === "avoid" ? "off " : "on ",
      h("a", { href: address("broker", row.broker) }, row.broker),
    ) : "",
    h(
      "small",
      null,
      `by ${row.who || "somebody"}`,
      row.why ? h("q", null, row.why) : "",
      row.until_ms ? ` until ${time(row.until_ms)} UTC` : "",
      row.effect ? h("span", null, `: ${row.effect}`) : "",
    ),
    button(context, "End", { kind: "end_override", title: "End the override", args: { id: row.id } })))));
}
