// Decisions as sentences; each opens into its evidence: the figures that were seen and the candidates that lost.

import { about, getJson } from "../api.js";
import { facts, h, plainTable, right, since, to } from "../dom.js";

const SHOWN = 40; // at first

/** A list of decisions, newest first as given. */
export function decisionList(rows, empty) {
  if (!rows.length) return h("p.empty", null, empty);
  const list = h("ol.decisions");
  const add = (from, until) => list.append(...rows.slice(from, until).map(item));
  add(0, SHOWN);
  if (rows.length <= SHOWN) return list;
  const more = h(
    "button",
    { type: "button", onclick: () => { add(SHOWN); more.remove(); } },
    `${rows.length - SHOWN} more`,
  );
  return [list, more];
}

function item(row) {
  const [first, ...others] = row.sentences;
  const links = [
    row.bundle && to("bundle", row.bundle),
    row.source && to("broker", row.source),
    row.target && [h("span", null, "→"), to("broker", row.target)],
  ];
  const kind = h(
    "span.kind",
    { "data-kind": row.kind, "data-done": String(row.done) },
    row.swapped_with ? "swap" : row.kind,
  );
  const when = h("small", null, to("round", row.round_id, `round ${row.round_id}`), " ", since(row.at_ms));
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
  });
  const more = others.map((text) => h("p.sentence", null, text));
  const summary = h("summary", null, kind, " ", first, " ", h("small", null, since(row.at_ms)));
  details.append(...[summary, more, h("p.links", null, links, when), body].flat());
  return h("li", { "data-band": row.band }, details);
}

function evidence(decision) {
  const figures = decision.figures.map(([name, value]) => [name.replaceAll("_", " "), value]);
  return [
    candidates(decision),
    figures.length ? h("details", null, h("summary", null, "All figures"), facts(figures)) : "",
    h(
      "p.quiet",
      null,
      [
        decision.decision_id,
        `by ${decision.strategy}`,
        decision.challenger && "a challenger",
        decision.reason,
      ].filter(Boolean).join(", "),
    ),
  ];
}

/** The candidates of a decision, best first, each with the rule that it lost by. */
export function candidates(decision) {
  const rows = decision.candidates || [];
  if (!rows.length) return "";
  const swapped = rows.some((row) => row.in_exchange_for);
  const scored = rows.some((row) => row.source_after || row.target_after);
  const names = [
    "Bundle",
    "Target",
    ...(swapped ? ["In exchange for"] : []),
    ...(scored ? ["Source after", "Target after"] : []),
    "Result",
  ];
  const cells = (row) => [
    to("bundle", row.bundle),
    to("broker", row.target),
    ...(swapped ? [to("bundle", row.in_exchange_for)] : []),
    ...(scored ? [right(row.source_after), right(row.target_after)] : []),
    row.result,
  ];
  const best = rows.length === 1 ? "The best candidate" : `The best ${rows.length} candidates`;
  const caption = `${best}${decision.giver ? ` of ${decision.giver}` : ""}`;
  return plainTable(
    "Candidates",
    names,
    rows.map(cells),
    { caption, props: (at) => ({ "data-chosen": String(rows[at].chosen) }) },
  );
}
