// The formulas of formulas.py. A test holds each against Python's in a browser.
const NUMBERS = {
  fp32: [2 ** -24, (2 - 2 ** -23) * 2 ** 127],
  fp16: [2 ** -11, 65504],
  bf16: [2 ** -8, (2 - 2 ** -7) * 2 ** 127],
};
const SECTORS = ["rotation", "jet", "line", "light cone", "near lags"];
const unitRange = (x) => Math.min(1, Math.max(0, x));

const stretched = (s, omega) => {
  const pairs = omega.length, fast = Math.max(s.fast, s.slow);
  if (s.stretch === "PI") return omega.map((w) => w / s.scale);
  if (s.stretch === "NTK") return omega.map((w, k) => w * s.scale ** ((-2 * k) / (s.dim - 2)));
  if (s.stretch === "Llama 3") {
    return omega.map((w) => {
      const turns = (s.length * w) / (2 * Math.PI);
      const keep = fast === s.slow ? Number(turns >= s.slow) : unitRange((turns - s.slow) / (fast - s.slow));
      return w * keep + (w / s.scale) * (1 - keep);
    });
  }
  if (s.stretch === "YaRN") {
    const step = Math.log(omega[0] / omega[pairs - 1]) / (pairs - 1);
    const end = (turns) => Math.log((omega[0] * s.length) / (2 * Math.PI * turns)) / step;
    let low = end(fast), high = end(s.slow);
    if (s.whole === "yes") [low, high] = [Math.floor(low), Math.ceil(high)];
    [low, high] = [Math.max(0, low), Math.min(2 * pairs - 1, high)];
    const width = high === low ? 0.001 : high - low;
    return omega.map((w, k) => {
      const keep = 1 - unitRange((k - low) / width);
      return w * keep + (w / s.scale) * (1 - keep);
    });
  }
  return omega;
};
let known = { of: "", omega: [] }; // the last ladder: one step asks for it thirty times
const ladder = (s) => {
  const of = [s.base, s.dim, s.stretch, s.scale, s.length, s.fast, s.slow, s.whole, s.share].join();
  if (known.of !== of) known = { of, omega: freshLadder(s) };
  return known.omega;
};
const freshLadder = (s) => {
  const rate = Math.log(s.base) / s.dim;
  const omega = Array.from({ length: s.dim / 2 }, (_, k) => Math.exp(-rate * 2 * k));
  return stretched(s, omega).fill(0, Math.floor((s.share * s.dim) / 2));
};
const temperature = (s) =>
  s.stretch === "YaRN" && s.sharpen === "yes" ? 1 + 0.1 * Math.log(s.scale) : 1;

const FACTORIAL = [1, 1, 2, 6];
const sumOrders = (s, u, factorial) => {
  let sum = 0;
  for (const r of s.orders) sum += u ** r / (factorial ? FACTORIAL[r] : 1);
  return sum;
};
const bounded = (s, d) => sumOrders(s, d / Math.hypot(d, s.length), false);
const swing = (s, d) => {
  if (s.coords === "light cone") return bounded(s, d);
  return sumOrders(s, s.coords === "raw" ? d : d / s.length, true) * Math.exp((-s.damping * d) / s.length);
};
const rho = (s, d) => ({ raw: d, scaled: d / s.length, "light cone": Math.asinh(d / s.length) })[s.coords];
const angle = (s, d, bent) =>
  ((2 * Math.PI * s.cycles) / s.length) * (bent ? s.length * Math.asinh(d / s.length) : d);

// {sector: [nats, ...], sum: [...]} at these lags.
const parts = (s, lags) => {
  const omega = ladder(s), turning = omega.filter((w) => w > 0);
  const rest = omega.length - turning.length + s.still;
  const size = (s.rot * temperature(s) ** 2) / (omega.length + s.still);
  const found = {
    rotation: lags.map((d) => {
      if (!s.rot) return 0;
      let sum = rest;
      for (let k = 0; k < turning.length; k++) sum += Math.cos(turning[k] * d);
      return size * sum;
    }),
    jet: lags.map((d) => (s.jet ? s.jet * swing(s, d) * Math.cos(angle(s, d, s.coords === "light cone")) : 0)),
    line: lags.map((d) => -s.slope * rho(s, d)),
    "light cone": lags.map((d) => (s.cone ? s.cone * bounded(s, d) * Math.cos(angle(s, d, true)) : 0)),
    "near lags": lags.map((d) => (d < s.size ? s.near : 0)),
  };
  found.sum = lags.map((_, n) => SECTORS.reduce((sum, name) => sum + found[name][n], 0));
  return found;
};

// [[re, im, multiplicity, sector], ...]; a root of two sectors is named after the larger one.
const roots = (s) => {
  const found = [], seen = new Map();
  const key = (re, im) => `${re.toFixed(12)},${(im === 0 ? 0 : im).toFixed(12)}`.replace(/-(0\.0+)(?=,|$)/g, "$1");
  const add = (re, im, m, sector) => {
    const old = seen.get(key(re, im));
    if (!old) {
      found.push([re, im, m, sector]);
      seen.set(key(re, im), found[found.length - 1]);
    } else if (m > old[2]) [old[2], old[3]] = [m, sector];
  };
  const pair = (size, w, m, sector) => {
    add(size * Math.cos(w), size * Math.sin(w), m, sector);
    add(size * Math.cos(w), -size * Math.sin(w), m, sector);
  };
  if (s.rot) {
    for (const w of ladder(s)) pair(1, w, 1, "rotation");
    if (s.still) add(1, 0, 1, "rotation");
  }
  if (s.jet && s.orders && s.coords !== "light cone") {
    const highest = Math.max(...[...s.orders].map(Number));
    pair(Math.exp(-s.damping / s.length), (2 * Math.PI * s.cycles) / s.length, highest + 1, "jet");
  }
  if (s.slope && s.coords !== "light cone") add(1, 0, 2, "line");
  if (s.near) add(0, 0, s.size, "near lags");
  return found;
};

const amplitude = (s, d) =>
  s.rot * temperature(s) ** 2 + s.jet * swing(s, d) + s.slope * rho(s, d) + s.cone * bounded(s, d) +
  Math.abs(s.near) * Number(d < s.size);

const digits = (s, lags, number) => {
  const [unit, most] = NUMBERS[number], omega = ladder(s);
  const turn = omega.reduce((a, b) => a + b, 0) / (omega.length + s.still);
  return lags.map((d) => {
    if (amplitude(s, d) > most) return 0;
    const error =
      s.rot * temperature(s) ** 2 * (1 + d * turn) +
      s.jet * swing(s, d) * (1 + angle(s, d, s.coords === "light cone")) +
      s.slope * rho(s, d) + s.cone * bounded(s, d) * (1 + angle(s, d, true)) +
      Math.abs(s.near) * Number(d < s.size);
    return Math.max(0, -Math.log10(unit * error));
  });
};

const weights = (sum, lags) => {
  const width = lags.map((d, n) => (n + 1 < lags.length ? lags[n + 1] - d : 1));
  const logits = sum.map((f, n) => f + Math.log(width[n])), top = Math.max(...logits);
  const raised = logits.map((f) => Math.exp(f - top)), total = raised.reduce((a, b) => a + b, 0);
  return raised.map((w, n) => w / total / width[n]);
};
