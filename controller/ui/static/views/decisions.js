// Decisions as sentences; each opens into its evidence: the figures that were seen and the candidates that lost.

import { about, getJson } from "../api.js";
import { h, since, to } from "../dom.js";

const SHOWN = 40; // at first

/** A list of decisions, newest first as given. */
export function decisionList(rows, empty) {
  if (!rows.length) return h("p.empty", null, empty);
  const list = h("ol.decisions");
  const add = (from, until) => list.append(...rows.slice(from, until).map(item));
  add(0, SHOWN);
  if (rows.length <= SHOWN) return list;
  const more = h("button", { type: "button", onclick: () => { add(SHOWN); more.remove(); } }, `${rows.length - SHOWN} more`);
  return [list, more];
}

function item(row) {
  const [first, ...others] = row.sentences;
  const links = [row.bundle && to("bundle", row.bundle), row.source && to("broker", row.source), row.target && [h("span", null, "→"), to("broker", row.target)]];
  const body = h("div.evidence");
  const details = h("details", {
    ontoggle: async () => {
      if (!details.open || body.childElementCount || !row.decision_id) return;
      try {
        body.append(...[evidence(await getJson(about("decision", row.decision_id)))].flat(3));
      } catch (error) {
        body.append(h("p.error", null, error.message));
      }
    },
  }, h("summary", null, h("span.kind", { "data-kind": row.kind, "data-done": row.outcome === "executed" }, row.swapped_with ? "swap" : row.kind), " ", first),
  others.map((text) => h("p.sentence", null, text)), h("p.links", null, links, h("small", null, row.round_id ? to("round", row.round_id, `round ${row.round_id}`) : "", " ", since(row.at_ms))), body);
  return h("li", { "data-band": row.band }, details);
}

function evidence(decision) {
  return [
    candidates(decision),
    decision.figures.length ? h("details", null, h("summary", null, "All figures"), h("dl.facts", null, decision.figures.map(([name, value]) => h("div", null, h("dt", null, name.replaceAll("_", " ")), h("dd", null, value))))) : "",
    h("p.quiet", null, `${decision.decision_id}, by ${decision.strategy}${decision.challenger ? " (challenger)" : ""}, ${decision.reason}`),
  ];
}

/** The candidates of a decision, best first, each with the rule that it lost by. */
export function candidates(decision) {
  const rows = decision.candidates || [];
  if (!rows.length) return "";
  const swapped = rows.some((row) => row.in_exchange_for);
  const scored = rows.some((row) => row.source_after || row.target_after);
  const names = ["Bundle", "Target", ...(swapped ? ["In exchange for"] : []), ...(scored ? ["Source after", "Target after"] : []), "Result"];
  return h("div.scroll", null, h("table.candidates", { "aria-label": "Candidates" },
    h("caption", null, `The best ${rows.length} candidates${decision.giver ? ` of ${decision.giver}` : ""}`),
    h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, rows.map((row) => h("tr", { "data-chosen": row.chosen }, h("td", null, to("bundle", row.bundle)), h("td", null, row.target ? to("broker", row.target) : ""),
      swapped ? h("td", null, row.in_exchange_for ? to("bundle", row.in_exchange_for) : "") : "", scored ? [h("td.right", null, row.source_after), h("td.right", null, row.target_after)] : "", h("td", null, row.result))))));
}
