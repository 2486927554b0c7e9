// What people commanded about a broker or a bundle: who, when, why, and what the journal answered.

import { h, section } from "../dom.js";
import { time } from "../format.js";

const MOST = 20;

export function commandSection(rows) {
  if (!rows.length) return "";
  return section("Commands about it", h("ul.list", null, rows.slice(0, MOST).map((row) => h(
    "li",
    null,
    h("b", null, row.kind.replaceAll("_", " ")),
    row.args.to ? h("span", null, ` to ${row.args.to}`) : "",
    h("small", null, `${time(row.at_ms)} UTC by ${row.who || "somebody"}`, row.why ? h("q", null, row.why) : ""),
    row.outcome === "accepted" && !row.reason ? "" : h("span", null, `${row.outcome}: ${row.reason || "no reason"}`),
  ))));
}
