// Colours of load: viridis, which keeps its order for the colour-blind and in grey.

const STOPS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"];
const RGB = STOPS.map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

export const SCALE = Array.from({ length: 256 }, (_, n) => {
  const place = (n / 255) * (RGB.length - 1);
  const at = Math.min(Math.floor(place), RGB.length - 2);
  const part = place - at;
  return `rgb(${RGB[at].map((low, c) => Math.round(low + part * (RGB[at + 1][c] - low))).join(",")})`;
});

export const UNKNOWN = "#8a8f98";

/** The colour of a share from 0 to 1; grey where unknown. */
export function ofLoad(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return UNKNOWN;
  return SCALE[Math.max(0, Math.min(255, Math.round(share * 255)))];
}

/** A colour of this file, or `#rrggbb`, as a pixel of image data: red is the lowest byte. */
export function packed(colour) {
  const parts = colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16))
    : colour.match(/\d+/g).map(Number);
  return ((255 << 24) | (parts[2] << 16) | (parts[1] << 8) | parts[0]) >>> 0;
}

/** Whether dark text reads better on the colour of this share. */
export const isBright = (share) => share !== null && share > 0.62;
