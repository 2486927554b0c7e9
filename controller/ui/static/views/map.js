// Map: all bundles by broker on one canvas. The area is the traffic, the colour the load; a second canvas above has
// what is pointed at, so that 100,000 rectangles are painted once and not at every move of the pointer.

import { getBytes } from "../api.js";
import { SCALE, UNKNOWN, isBright, ofLoad, packed } from "../colour.js";
import { address, h } from "../dom.js";
import { count, percent, range, rate } from "../format.js";
import { fillRectangles } from "../raster.js";
import { hit, layOut } from "../treemap.js";

const STRIP_PX = 15;
const TYPES = { "<u4": Uint32Array, "<f4": Float32Array, "|u1": Uint8Array };
const COLOURS = { broker: "load of the broker", bundle: "traffic of the bundle" };
const NOBODY = 0xffffffff;
const STEPS = {
  ArrowRight: [1, 0], ArrowLeft: [-1, 0], j: [1, 0], k: [-1, 0], // brokers
  ArrowDown: [0, 1], ArrowUp: [0, -1], // bundles
};

export const map = {
  title: () => "Map",
  depends: ["seq", "loads"],
  every_ms: 5000,
  load: async ({ signal }) => read(await getBytes("/api/map", signal)),
  mount,
};

/** The binary document as typed arrays: see controller/ui/views/map.py. */
export function read(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let at = 4 + size;
  for (const [name, type] of header.fields) {
    const array = new TYPES[type](buffer, at, header.count);
    header[name] = array;
    at += Math.ceil(array.byteLength / 8) * 8;
  }
  return header;
}

function mount(root, context) {
  const state = { data: null, laid: null, colour: context.query.get("colour") || "broker", at: -1 };
  const canvas = h("canvas", { "aria-hidden": "true" });
  const above = h(
    "canvas.above",
    {
      tabindex: 0,
      role: "application",
      "aria-label": "Map of bundles. Arrow keys go from broker to broker and bundle to bundle, Enter opens.",
    },
  );
  const box = h("div.map", null, canvas, above);
  const told = h("p.told", { role: "status", "aria-live": "polite" });
  const summary = h("p.quiet");
  const choice = h("select", {
    "aria-label": "Colour", onchange: () => {
      state.colour = choice.value;
      paint(state, canvas, above);
      context.ready();
    }
  },
    Object.entries(COLOURS).map(([value, text]) => h("option", { value, selected: state.colour === value }, text)));
  root.append(
    h("header.head", null, h("h1", null, "Map"), h("p.ask", null, "Area: traffic. Colour: ", choice, legend())),
    summary,
    box,
    told,
  );

  const draw = () => {
    if (!state.data) return;
    lay(state, box, canvas, above);
    paint(state, canvas, above);
    point(state.at);
    context.ready();
  };
  const point = (at) => {
    state.at = at;
    highlight(state, above);
    told.replaceChildren(...describe(state, at));
  };
  const open = () => state.at >= 0 && context.go(address("bundle", nameOf(state.data, state.at)));
  const place = (event) => {
    const edge = above.getBoundingClientRect();
    return [event.clientX - edge.left, event.clientY - edge.top];
  };
  const under = (event) => {
    const [x, y] = place(event);
    const group = hit(state.laid.group, state.laid.filled, x, y);
    return [group, group < 0 ? -1 : hit(state.laid.member, state.laid.of[group], x, y)];
  };
  above.addEventListener("pointermove", (event) => {
    if (!state.laid || event.pointerType === "touch") return;
    const [, at] = under(event);
    if (at !== state.at) point(at);
  });
  above.addEventListener("pointerleave", () => state.laid && point(-1));
  above.addEventListener("click", (event) => {
    if (!state.laid) return;
    const [group, at] = under(event);
    if (at < 0) {
      if (group >= 0 && state.data.brokers[group]) context.go(address("broker", state.data.brokers[group].broker));
    } else if (event.pointerType === "touch" && at !== state.at) point(at); // the second touch opens
    else {
      state.at = at;
      open();
    }
  });
  /** Pressed on the map, or anywhere else on the page, from where an arrow or a letter comes to the map. */
  const key = (event) => {
    const step = STEPS[event.key];
    const enter = event.key === "Enter" && event.target === above;
    if (!state.laid || (!step && !enter)) return false;
    if (step) {
      above.focus();
      point(neighbour(state, ...step));
    } else open();
    return true;
  };
  const resized = new ResizeObserver(draw);
  resized.observe(box);
  document.addEventListener("theme", draw, { signal: context.signal });
  return {
    late: true, // ready once it is painted
    leave: () => resized.disconnect(),
    key,
    update(data) {
      state.at = placeOf(data, state);
      state.data = data;
      const unknown = data.throughput.reduce((n, value) => n + Number.isNaN(value), 0);
      const rest = unknown ? `; ${unknown.toLocaleString("en")} without a load of ${unknown === 1 ? "its" : "their"} own` : "";
      summary.textContent = data.count ? `${count(data.count, "bundle")} on ${count(data.brokers.length, "broker")}${rest}`
        : "There are no bundles yet.";
      box.hidden = told.hidden = !data.count;
      draw();
    },
  };
}

/** Sizes and rectangles. What has no traffic is still seen: it gets a hundredth of the mean. */
function lay(state, box, canvas, above) {
  const { data } = state;
  const width = Math.floor(box.clientWidth);
  const height = Math.floor(box.clientHeight);
  for (const one of [canvas, above]) {
    one.width = Math.round(width * devicePixelRatio);
    one.height = Math.round(height * devicePixelRatio);
    one.getContext("2d").setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  }
  let sum = 0;
  state.most = 0;
  for (const value of data.throughput) {
    if (value > 0) sum += value;
    if (value > state.most) state.most = value;
  }
  const least = sum > 0 ? sum / data.count / 100 : 1;
  const sizes = data.throughput.map((value) => (value > least ? value : least));
  const groupOf = data.broker.map((at) => (at === NOBODY ? data.brokers.length : at));
  state.laid = layOut(sizes, groupOf, data.brokers.length + 1, width, height, STRIP_PX);
}

function paint(state, canvas) {
  const { data, laid } = state;
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const context = canvas.getContext("2d");
  if (!canvas.width || !canvas.height) return;
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer).fill(packed(style.getPropertyValue("--paper").trim()));
  const colours = state.colour === "broker" ? colourByBroker(data) : colourByTraffic(data, state.most);
  for (const group of laid.filled) {
    const colourOf = colours(group);
    fillRectangles(pixels, canvas.width, canvas.height, laid.member, laid.of[group], colourOf, devicePixelRatio);
  }
  context.putImageData(image, 0, 0);
  for (const group of laid.filled) {
    const broker = data.brokers[group];
    label(context, laid.group, group, broker ? broker.broker : "nobody", broker ? broker.score : null, ink);
  }
}

/** All bundles of a broker in the colour of its load. */
const colourByBroker = (data) => (group) => {
  const colour = packed(ofLoad(data.brokers[group] ? data.brokers[group].score : null));
  return () => colour;
};

/** Each bundle by its traffic, against the largest. */
function colourByTraffic(data, most) {
  const [scale, unknown] = [SCALE.map(packed), packed(UNKNOWN)];
  return () => (at) => {
    const value = data.throughput[at];
    return Number.isNaN(value) ? unknown : scale[Math.round(255 * Math.sqrt(most > 0 ? value / most : 0))];
  };
}

function label(context, rects, group, name, load, ink) {
  const [x, y, w, tall] = rects.subarray(4 * group, 4 * group + 4);
  if (tall <= 3 * STRIP_PX || w <= 3 * STRIP_PX) return;
  context.save();
  context.beginPath();
  context.rect(x, y, w - 3, STRIP_PX + 1);
  context.clip();
  context.fillStyle = ink;
  context.font = "11px system-ui, sans-serif";
  context.fillText(load === null ? name : `${name}  ${percent(load)}`, x + 3, y + 12);
  context.restore();
}

function highlight(state, above) {
  const context = above.getContext("2d");
  context.clearRect(0, 0, above.width, above.height);
  if (state.at < 0 || !state.laid) return;
  const [x, y, w, tall] = state.laid.member.subarray(4 * state.at, 4 * state.at + 4);
  context.lineWidth = 3;
  context.strokeStyle = "#000";
  context.strokeRect(x, y, w, tall);
  context.lineWidth = 1.5;
  context.strokeStyle = "#fff";
  context.strokeRect(x, y, w, tall);
}

const nameOf = (data, at) => `${data.namespaces[data.namespace[at]]}/${range(data.lower[at], data.upper[at])}`;

/** Where the bundle that is pointed at is in the new data. */
function placeOf(data, { data: known, at }) {
  if (at < 0) return -1;
  const namespace = data.namespaces.indexOf(known.namespaces[known.namespace[at]]);
  const [lower, upper] = [known.lower[at], known.upper[at]];
  for (let i = 0; i < data.count; i++) {
    if (data.lower[i] === lower && data.upper[i] === upper && data.namespace[i] === namespace) return i;
  }
  return -1;
}

function describe(state, at) {
  if (at < 0) return ["Point at a bundle, or use the arrow keys."];
  const { data } = state;
  const broker = data.brokers[data.broker[at]];
  const known = !Number.isNaN(data.throughput[at]);
  const rates = () => `${rate(data.throughput[at], "B/s")}, ${rate(data.msg_rate[at], "messages/s")}`;
  const load = known ? rates() : "no load of its own";
  const where = broker ? `${broker.broker} (${percent(broker.score)})` : "nobody";
  return [
    h("b", null, nameOf(data, at)),
    ` on ${where}: ${load}${data.moving[at] ? ", on its way" : ""}`,
  ];
}

/** The next bundle of the broker (up, down), or the first of the next broker (left, right). */
function neighbour({ laid, data, at }, across, down) {
  const order = laid.filled;
  if (at < 0) return order.length ? laid.of[order[0]][0] : -1;
  const group = data.broker[at] === NOBODY ? data.brokers.length : data.broker[at];
  if (across) {
    const next = (order.indexOf(group) + across + order.length) % order.length;
    return laid.of[order[next]][0];
  }
  const own = laid.of[group];
  return own[(own.indexOf(at) + down + own.length) % own.length];
}

const step = (background, color, text) => h("i", { vars: { background, color } }, text);

function legend() {
  const steps = [0, 0.2, 0.4, 0.6, 0.8, 1];
  return h("span.scale", { role: "img", "aria-label": "Colours from no load, dark violet, to full load, yellow" },
    steps.map(
      (share) => step(ofLoad(share), isBright(share) ? "#111" : "#fff", `${Math.round(100 * share)}`),
    ), step(UNKNOWN, "#fff", "?"));
}
