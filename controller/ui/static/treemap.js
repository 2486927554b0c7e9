// A squarified treemap of many small values inside fewer large ones, in typed arrays: no objects, no elements.
//
// Squarified treemaps: Bruls, Huizing, van Wijk, 2000. Rectangles are as square as the order by size allows.

/**
 * Lays out `order` (indices, largest value first) of `values` inside a rectangle; writes x, y, w, h of index i to
 * `out[4 * i …]`. All values must be above 0.
 */
export function squarify(values, order, x, y, w, h, out) {
  let left = 0;
  for (const at of order) left += values[at];
  let scale = (w * h) / (left || 1);
  let first = 0;
  while (first < order.length && w > 0 && h > 0) {
    const short = Math.min(w, h);
    let last = first;
    let sum = 0;
    let worst = Infinity;
    const largest = values[order[first]] * scale;
    while (last < order.length) {
      const area = values[order[last]] * scale;
      const whole = sum + area;
      const side = whole / short;
      const ratio = Math.max((short * short * largest) / (whole * whole), (whole * whole) / (short * short * area));
      if (ratio > worst) break;
      worst = ratio;
      sum = whole;
      last += 1;
      if (side <= 0) break;
    }
    const thick = sum / short;
    let along = 0;
    for (let n = first; n < last; n += 1) {
      const at = 4 * order[n];
      const long = (values[order[n]] * scale) / thick;
      if (w >= h) out.set([x, y + along, thick, long], at);
      else out.set([x + along, y, long, thick], at);
      along += long;
    }
    if (w >= h) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      h -= thick;
    }
    first = last;
  }
}

/** Indices below `n` whose values are largest first. */
export function largestFirst(values, indices) {
  return indices.sort((a, b) => values[b] - values[a]);
}

/**
 * Two levels: groups inside the rectangle, then members inside each group below a strip for its label. `groupOf[i]` is
 * the group of member i, below `groups`; `sizes[i]` > 0. Returns {group, member: rectangles, four numbers each; of:
 * members by group, largest first; filled: groups that have any, largest first}.
 */
export function layOut(sizes, groupOf, groups, width, height, strip) {
  const of = Array.from({ length: groups }, () => []);
  const totals = new Float64Array(groups);
  for (let at = 0; at < sizes.length; at += 1) {
    of[groupOf[at]].push(at);
    totals[groupOf[at]] += sizes[at];
  }
  const filled = [...totals.keys()].filter((group) => totals[group] > 0);
  const group = new Float32Array(4 * groups);
  const member = new Float32Array(4 * sizes.length);
  squarify(totals, largestFirst(totals, filled), 0, 0, width, height, group);
  for (const at of filled) {
    const [x, y, w, h] = group.subarray(4 * at, 4 * at + 4);
    const head = h > 3 * strip && w > 3 * strip ? strip : 0;
    squarify(
      sizes,
      largestFirst(sizes, of[at]),
      x + 1,
      y + 1 + head,
      Math.max(w - 2, 0),
      Math.max(h - 2 - head, 0),
      member,
    );
  }
  return { group, member, of, filled };
}

/** The index among `indices` of the rectangle in `rects` that holds the point; -1 where none does. */
export function hit(rects, indices, x, y) {
  for (const at of indices) {
    const base = 4 * at;
    const dx = x - rects[base];
    const dy = y - rects[base + 1];
    if (dx >= 0 && dy >= 0 && dx < rects[base + 2] && dy < rects[base + 3]) return at;
  }
  return -1;
}
