// A round: its plan, the plans of its challengers beside it, and what any other strategy would have done.

import { about, getJson } from "../api.js";
import { bar } from "../charts.js";
import { address, facts, h, reason, region, section, since, to } from "../dom.js";
import { count, duration, movesOf, percent, time } from "../format.js";
import { Table } from "../table.js";
import { realisedSection } from "./bundle.js";
import { decisionList } from "./decisions.js";

export const round = {
  title: (name) => `Round ${name}`,
  depends: ["evidence"],
  every_ms: 5000,
  load: ({ name, signal }) => getJson(about("round", name), signal),
  mount,
};

function mount(root, context) {
  const head = h("header.head");
  const plans = h("div.plans");
  const others = h("div.plans");
  const asked = h("div.asked");
  const realised = h("div");
  const scores = new Table({
    label: "Brokers in this round",
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
      { name: "Hits", align: "right", wide: true, cell: (row) => String(row.hits) },
      {
        name: "It was",
        cell: (row) => [
          row.is_source ? h("span.mark", { "data-mark": "source" }, "source") : "",
          row.eligible ? "" : h("span.mark", null, "not eligible"),
        ],
      },
      { name: "Why", wide: true, cell: (row) => reason(row.reason, row.reason_words) },
    ],
  });
  root.append(head, plans, asked, others, realised, section("Brokers", scores.element));
  getJson(about("realised/round", context.name), context.signal).then(
    (found) => region(realised, found.rows, realisedSection),
    () => {},
  );
  return {
    update(data) {
      region(head, [data.plans[0], data.newer, data.older], () => headOf(data));
      region(plans, data.plans, (found) => found.map((plan) => planOf(plan)));
      region(asked, data.strategies, (names) => askOther(names, data.plans, context, others));
      scores.update(data.scores);
    },
  };
}

function headOf({ plans: [plan], newer, older }) {
  return [
    h("h1", null, `Round ${plan.round_id}`),
    h(
      "p.buttons",
      null,
      older ? h("a", { href: address("round", older), rel: "prev" }, "← older") : "",
      newer ? h("a", { href: address("round", newer), rel: "next" }, "newer →") : "",
    ),
    facts([
      ["At (UTC)", h("span", null, time(plan.at_ms), " ", since(plan.at_ms))],
      ["Mode", plan.mode],
      ...(plan.because ? [["Because", plan.because]] : []),
      ["Balance", plan.balance === null ? "–" : plan.balance.toFixed(0)],
      ["Mean, highest load", `${percent(plan.mean_score)}, ${percent(plan.max_score)}`],
      ["Journal", String(plan.seq)],
      ["Took", duration(plan.duration_ms)],
      ["Rules", String(plan.rules)],
      ["Plan", h("code", { title: plan.plan_hash || "" }, (plan.plan_hash || "").slice(0, 12))],
    ]),
  ];
}

function planOf(plan, note) {
  return h("article.plan", { "data-challenger": plan.challenger },
    h("h2", null, plan.strategy, h("small", null, note ? "what it would have done" : plan.challenger ? "challenger" : "in charge")),
    h("p.quiet", null, `${movesOf(plan)}, ${count(plan.splits, "split")}, ${plan.skips} left`),
    note ? h("p.quiet", null, note) : "",
    plan.plan ? h("p.lead", { "data-plan": plan.plan.phase }, `Its plan: ${plan.plan.text}.`) : "",
    decisionList(plan.decisions, note ? "It would have moved and split nothing." : "It moved and split nothing."),
    plan.left.length ? leftOf(plan) : "");
}

function leftOf({ left, left_more }) {
  const more = left_more ? h("p.quiet", null, `and ${left_more} more, less loaded`) : "";
  return h(
    "details",
    null,
    h("summary", null, `What it left: ${left.length + left_more}`),
    decisionList(left, ""),
    more,
  );
}

function askOther(names, plans, context, others) {
  const known = new Set(plans.map((plan) => plan.strategy));
  const choice = h(
    "select",
    { "aria-label": "Strategy" },
    names.filter((name) => !known.has(name)).map((name) => h("option", { value: name }, name)),
  );
  const told = h("span.quiet", { role: "status" });
  const run = h("button", {
    type: "button",
    onclick: async () => {
      run.disabled = true;
      told.textContent = "deciding again…";
      try {
        const found = await getJson(
          `${about("round", context.name)}/as/${encodeURIComponent(choice.value)}`,
          context.signal,
        );
        others.prepend(planOf(found.plan, found.note));
        told.textContent = "";
      } catch (error) {
        told.textContent = error.message;
      }
      run.disabled = false;
    },
  }, "Show");
  return h("p.ask", null, "What would ", choice, " have done? ", run, " ", told);
}
