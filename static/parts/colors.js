// Colors: the color ramp of a map as a table, and text colors that are readable on a background.

const READABLE = 4.5; // minimum contrast ratio of text, WCAG 2.2 AA

// Interpolate the 255 colors [r, g, b] of a ramp from its color stops.
export function lookup(stops) {
  const rgb = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: 255 }, (_, code) => {
    const place = (code / 254) * (rgb.length - 1);
    const low = Math.min(Math.floor(place), rgb.length - 2);
    return rgb[low].map((a, i) => Math.round(a + (rgb[low + 1][i] - a) * (place - low)));
  });
}

export const channels = (color) =>
  color.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16))
    : color
        .match(/[\d.]+/g)
        .slice(0, 3)
        .map(Number);
export const mixed = (from, to, share) => channels(from).map((a, i) => Math.round(a + (channels(to)[i] - a) * share));
const light = (rgb) =>
  rgb
    .map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
export const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
// Return the page's text color if it is readable on this background, else black or white, whichever is readable.
export const ink = (ground, text) =>
  [text, "#000000", "#ffffff"].find((color) => contrast(channels(color), ground) >= READABLE);
