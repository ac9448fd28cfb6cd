// The colours of the heat map: from black over purple and orange to pale yellow. Each is lighter than the one before, for
// every kind of colour vision, so that more is always brighter; ramp_test.go checks it.

/** Red, green and blue at even distances. Between two of them colours are mixed in equal steps. */
export const stops = [
  [3, 4, 12], [26, 12, 64], [66, 14, 104], [107, 24, 110], [147, 38, 103], [186, 54, 85],
  [221, 81, 58], [243, 120, 25], [252, 165, 10], [246, 215, 70], [252, 255, 190],
];

/** What zero, or the lowest, and the highest are drawn with: 256 colours. @type {[number, number, number][]} */
export const ramp = Array.from({ length: 256 }, (_, i) => {
  const at = (i / 255) * (stops.length - 1);
  const n = Math.min(Math.floor(at), stops.length - 2);
  return /** @type {[number, number, number]} */ ([0, 1, 2].map((k) => Math.round(stops[n][k] + (at - n) * (stops[n + 1][k] - stops[n][k]))));
});

/** @param {number} i 0 to 255 */
export const rampColor = (i) => `rgb(${ramp[i].join(" ")})`;
