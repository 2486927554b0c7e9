// Rounds: a timeline of balance and moves; a round opens by a click on its bar or its row.

import { getJson } from "../api.js";
import { Lines } from "../charts.js";
import { address, h, s, section, since, to } from "../dom.js";
import { count, duration, movesOf, percent, time } from "../format.js";
import { Table } from "../table.js";

export const rounds = {
  title: () => "Rounds",
  depends: ["evidence"],
  load: ({ query, signal }) => getJson(
    `/api/rounds${query.get("before") ? `?before=${encodeURIComponent(query.get("before"))}` : ""}`,
    signal,
  ),
  mount,
};

function mount(root, context) {
  const open = (at_ms) => {
    const found = shown.find((row) => row.at_ms === at_ms);
    if (found) context.go(address("round", found.round_id));
  };
  const balance = new Lines(
    { label: "Balance score by round", height: 110, format: (score) => score.toFixed(0), top: 100, onpick: open },
  );
  const moves = new Bars(open);
  const table = new Table({
    label: "Rounds",
    key: (row) => row.round_id,
    empty: "No round has run yet.",
    columns: [
      { name: "Round", cell: (row) => to("round", row.round_id) },
      { name: "At (UTC)", cell: (row) => [h("span.when", null, time(row.at_ms)), " ", h("small.when.wide", null, since(row.at_ms))] },
      { name: "Strategy", wide: true, cell: (row) => row.strategy },
      { name: "Mode", wide: true, cell: (row) => row.mode },
      {
        name: "Moves",
        align: "right",
        cell: (row) => [String(row.moves), row.approval ? h("small.phone", null, row.approval) : ""],
      },
      { name: "Splits", align: "right", wide: true, cell: (row) => String(row.splits) },
      { name: "Approval", wide: true, cell: (row) => row.approval },
      { name: "Balance", align: "right", cell: (row) => (row.balance === null ? "–" : row.balance.toFixed(0)) },
      { name: "Mean load", align: "right", wide: true, cell: (row) => percent(row.mean_score) },
      { name: "Highest", align: "right", wide: true, cell: (row) => percent(row.max_score) },
      {
        name: "Challengers would move",
        grow: true,
        wide: true,
        cell: (row) => row.challengers.map((one) => `${one.strategy} ${one.moves}`).join(", "),
      },
      { name: "Took", align: "right", wide: true, cell: (row) => duration(row.duration_ms) },
    ],
  });
  const more = h("p.buttons");
  let shown = [];
  root.append(
    h("h1", null, "Rounds"),
    section("Balance", balance.element),
    section("Moves and splits", moves.element),
    table.element,
    more,
  );
  return {
    update(data) {
      shown = data.rounds;
      const oldest_first = [...data.rounds].reverse();
      balance.update(
        {
          at_ms: oldest_first.map((row) => row.at_ms),
          lines: [{ name: "balance", values: oldest_first.map((row) => row.balance), kind: "main" }],
        },
      );
      moves.update(oldest_first);
      table.update(data.rounds);
      more.replaceChildren(
        context.query.get("before") ? h("a", { href: "/rounds" }, "Newest rounds") : "",
        data.more ? olderRounds(data) : "");
    },
  };
}

function olderRounds({ rounds: shown, kept }) {
  const more = (kept - shown.length).toLocaleString("en");
  return h("a", { href: `/rounds?before=${shown[shown.length - 1].at_ms}` }, `Older rounds (${more} more)`);
}

/** A bar for each round: moves, and splits on top. Each is a link. */
class Bars {
  constructor(open) {
    this.open = open;
    this.svg = s("svg.bars", { height: 64, role: "group", "aria-label": "Moves and splits by round" });
    this.element = h(
      "figure.chart",
      null,
      this.svg,
      h(
        "figcaption",
        null,
        h(
          "p.legend",
          null,
          h("span.key", { "data-kind": "moves" }, "moves"),
          h("span.key", { "data-kind": "splits" }, "splits"),
        ),
      ),
    );
    this.rows = [];
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  update(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    const width = Math.max(200, this.element.clientWidth || 600);
    const most = this.rows.reduce((top, row) => Math.max(top, row.moves + row.splits), 1);
    const step = width / Math.max(this.rows.length, 1);
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(...this.rows.map((row, at) => {
      const [moves, splits] = [row.moves, row.splits].map((n) => (n / most) * 58);
      const x = at * step;
      const wide = Math.max(1, step - 1);
      const deeds = `${movesOf(row)}, ${count(row.splits, "split")}`;
      const title = `${time(row.at_ms)} UTC, ${row.strategy}: ${deeds}`;
      return s("g", { onclick: () => this.open(row.at_ms) }, s("title", null, title),
        s("rect.hit", { x, y: 0, width: Math.max(step, 1), height: 62 }),
        s("rect", { "data-kind": "moves", x, y: 60 - moves, width: wide, height: Math.max(moves, 1) }),
        s("rect", { "data-kind": "splits", x, y: 60 - moves - splits, width: wide, height: splits }));
    }));
  }
}
