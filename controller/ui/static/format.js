// Numbers and times as people read them. Times are UTC, as everywhere in Ballast.

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const text = (100 * share).toFixed(1);
  return `${text === "-0.0" ? "0.0" : text} %`; // a sum that is not quite 0
}

export const points = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;

export function rate(per_s, unit) {
  if (per_s === null || per_s === undefined || Number.isNaN(per_s)) return "–";
  for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(per_s) >= size) return `${(per_s / size).toFixed(1)} ${prefix}${unit}`;
  }
  return `${per_s >= 10 || per_s === 0 ? per_s.toFixed(0) : per_s.toFixed(1)} ${unit}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const time = (at_ms) => (at_ms ? new Date(at_ms).toISOString().slice(0, 19).replace("T", " ") : "");

export const clock = (at_ms) => new Date(at_ms).toISOString().slice(11, 19);

export const count = (n, what, many) => `${n.toLocaleString("en")} ${n === 1 ? what : many || `${what}s`}`;

export const resource = (name) => (name || "").replaceAll("_", " ");

export const range = (lower, upper) => `0x${hex(lower)}_0x${hex(upper)}`;

const hex = (n) => n.toString(16).padStart(8, "0");

/** `3 moves`, with what they wait for or what became of them. */
export const movesOf = (round) => `${count(round.moves, "move")}${round.approval ? ` (${round.approval})` : ""}`;
