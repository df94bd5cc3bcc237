// State, controls and the six views. `PAGE` holds the controls and the presets.
const $ = (id) => document.getElementById(id);
const node = (tag, attributes = {}, parent = null, text = "") => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  if (parent) parent.append(made);
  return made;
};
const POINTS = 400, CELLS = 48, FAR = 1e6;
const DISTANCES = Array.from({ length: 61 }, (_, n) => 10 ** (n / 10));
const LOGS = DISTANCES.map(Math.log10);
let preset = PAGE.presets[0], state = { ...PAGE.start, ...preset.set };

const spread = (longest, most) => {
  if (longest < most) return Array.from({ length: longest + 1 }, (_, d) => d);
  return Array.from({ length: most + 1 }, (_, n) => Math.round((n * longest) / most));
};
const range = (lists) => {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) for (const v of list) { if (v < low) low = v; if (v > high) high = v; }
  const room = (high - low) * 0.06 || 0.5;
  return [low - room, high + room];
};
const say = (canvas, text, title) => {
  canvas.parentElement.querySelector(".said").textContent = text;
  canvas.setAttribute("aria-label", `${title}. ${text}`);
};
const present = (s) => SECTORS.filter((name) => ({
  rotation: s.rot, jet: s.jet && s.orders, line: s.slope, "light cone": s.cone && s.orders, "near lags": s.near,
})[name]);

const views = {
  kernel(s, now) {
    const names = [...now.sectors, "sum"], canvas = $("c-kernel");
    const [low, high] = range(names.map((name) => now.parts[name]));
    const plot = chart(canvas, 260, linear(0, now.longest, 6, "lag d (tokens)"), linear(low, high, 5, ""));
    plot.upright(s.length, "L");
    for (const name of now.sectors) plot.curve(now.lags, now.parts[name], LOOKS[name], 1.5);
    plot.curve(now.lags, now.parts.sum, LOOKS.sum, 2.5);
    say(canvas, `In nats, up to ${s.times} L = ${now.longest.toLocaleString("en")} tokens: ${short(now.at(0))} at lag 0, ` +
      `${short(now.at(s.length))} at L, ${short(now.at(now.longest))} at the end.` +
      (now.lags.length > POINTS ? ` ${POINTS + 1} lags are drawn; turns between them do not show.` : ""), "Logit by lag");
  },
  roots(s, now) {
    const canvas = $("c-roots"), side = sizes.get(canvas) || 300, axis = linear(-1.25, 1.25, 5, "real part");
    const plot = chart(canvas, Math.min(side, 300), axis, { ...axis, label: "" }), { pen, px, py } = plot;
    pen.strokeStyle = colours["--faint"];
    pen.setLineDash([]);
    pen.beginPath();
    pen.ellipse(px(0), py(0), px(1) - px(0), py(0) - py(1), 0, 0, 7);
    pen.stroke();
    for (const [re, im, m, sector] of now.roots) {
      pen.fillStyle = colours[LOOKS[sector][0]];
      pen.beginPath();
      pen.arc(px(re), py(im), m > 1 ? 6 : 3.5, 0, 7);
      pen.fill();
      if (m > 1) {
        pen.textAlign = re > 0.9 ? "right" : "left";
        pen.fillText(`×${m}`, px(re) + (re > 0.9 ? -9 : 9), py(im) - 7);
      }
    }
    const most = now.roots.reduce((a, r) => Math.max(a, r[2]), 0);
    const bent = now.sectors.some((n) => n === "light cone" || (s.coords === "light cone" && (n === "jet" || n === "line")));
    say(canvas, (now.roots.length ? `${now.roots.length} roots, of multiplicity ${most} at most.` : "No root.") +
      (bent ? " What lives in light-cone coordinates has none: no finite state makes it." : ""), "Roots");
  },
  matrix(s, now) {
    const canvas = $("c-matrix"), [pen, width] = begin(canvas, Math.min(sizes.get(canvas) || 300, 300));
    const step = Math.max(1, Math.round(now.longest / CELLS)), cell = (width - 2) / CELLS;
    const values = parts(s, Array.from({ length: CELLS }, (_, n) => n * step)).sum;
    const most = Math.max(...values.map(Math.abs)) || 1;
    for (let lag = 0; lag < CELLS; lag++) {
      const v = values[lag] / most;
      pen.globalAlpha = Math.abs(v);
      pen.fillStyle = colours[v < 0 ? "--line" : "--jet"];
      for (let i = lag; i < CELLS; i++) pen.fillRect(1 + (i - lag) * cell, 1 + i * cell, cell + 0.3, cell + 0.3);
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colours["--faint"];
    pen.setLineDash([]);
    pen.strokeRect(0.5, 0.5, width - 1, width - 1);
    say(canvas, `Query down, key to the right, every ${step === 1 ? "token" : step.toLocaleString("en") + " tokens"}. ` +
      `Blue adds up to ${short(Math.max(0, ...values))} nats, orange takes up to ${short(Math.max(0, ...values.map((v) => -v)))}; keys to come are left out.`, "Toeplitz matrix");
  },
  row(s, now) {
    const canvas = $("c-row"), [, high] = range([now.weights, [0]]);
    const plot = chart(canvas, 230, linear(0, now.longest, 5, "lag to the key (tokens)"), linear(0, high, 4, ""));
    plot.upright(s.length, "L");
    plot.curve(now.lags, now.weights, LOOKS.sum, 2);
    let entropy = 0, near = 0;
    now.weights.forEach((w, n) => {
      const width = n + 1 < now.lags.length ? now.lags[n + 1] - now.lags[n] : 1;
      if (w > 0) entropy -= width * w * Math.log(w);
      if (now.lags[n] < s.length) near += width * w;
    });
    now.keys = Math.exp(entropy);
    say(canvas, `Weight of each key for the query at position ${now.longest.toLocaleString("en")}: as wide as ` +
      `${short(now.keys)} keys of equal weight; ${Math.round(100 * near)} % lies within L.`, "Attention row");
  },
  growth(s, now) {
    const canvas = $("c-growth"), values = now.growth.map((v) => (v > 0 ? Math.log10(v) : NaN));
    const known = values.filter((v) => !Number.isNaN(v));
    const low = Math.max(-6, Math.floor(Math.min(-1, ...known))), high = Math.ceil(Math.max(1, ...known) + 0.5);
    const plot = chart(canvas, 230, decades(0, 6, "lag d (tokens)"), decades(low, high, ""));
    const limit = Math.log10(NUMBERS.fp16[1]);
    if (limit < high) plot.level(limit, "largest fp16");
    plot.upright(Math.log10(s.length), "L");
    plot.curve(LOGS, values, LOOKS.sum, 2.5);
    const out = DISTANCES.findIndex((d, n) => now.growth[n] > NUMBERS.fp16[1]);
    say(canvas, `Bound of the logit: ${short(amplitude(s, s.length))} nats at L, ${short(now.growth[60])} at a million. ` +
      (out < 0 ? "fp16 holds it throughout." : `fp16 overflows near ${short(DISTANCES[out])} tokens.`), "Growth");
  },
  digits(s, now) {
    const canvas = $("c-digits"), plot = chart(canvas, 230, decades(0, 6, "lag d (tokens)"), linear(0, 8, 4, ""));
    plot.upright(Math.log10(s.length), "L");
    for (const name of Object.keys(NUMBERS)) plot.curve(LOGS, now.digits[name], LOOKS[name], 2);
    const at = (name, d) => short(Math.min(99, Number(digits(s, [d], name)[0].toFixed(1))));
    say(canvas, "Decimals of a nat at L and at a million: " +
      Object.keys(NUMBERS).map((n) => `${n} ${at(n, s.length)} and ${at(n, FAR)}`).join(", ") + ".", "Digits left");
  },
  numbers(s, now) {
    const table = $("numbers"), rows = [0, 1, s.length / 4, s.length, 2 * s.length, now.longest, FAR].map(Math.round);
    table.replaceChildren();
    node("caption", {}, table, "Lags in tokens, logits and bounds in nats.");
    const head = node("tr", {}, node("thead", {}, table));
    for (const name of ["lag", "logit", "bound", "fp32", "fp16", "bf16"]) node("th", { scope: "col" }, head, name);
    const body = node("tbody", {}, table), lags = [...new Set(rows)], sum = parts(s, lags).sum;
    lags.forEach((d, n) => {
      const row = node("tr", {}, body);
      node("th", { scope: "row" }, row, d.toLocaleString("en"));
      const left = Object.keys(NUMBERS).map((name) => digits(s, [d], name)[0]);
      for (const v of [sum[n], amplitude(s, d), ...left.map((x) => Number(Math.min(99, x).toFixed(1)))]) node("td", {}, row, short(v));
    });
  },
};
const compute = (s) => {
  const longest = s.length * s.times, lags = spread(longest, POINTS), found = parts(s, lags);
  const at = (d) => parts(s, [d]).sum[0];
  return {
    longest, lags, at, parts: found, sectors: present(s), roots: roots(s), weights: weights(found.sum, lags),
    growth: DISTANCES.map((d) => amplitude(s, d)),
    digits: Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, digits(s, DISTANCES, name)])),
  };
};
let legendOf = "";
const legend = (list, names) => {
  list.replaceChildren();
  for (const name of names) {
    const item = node("li", {}, list), [colour, dash] = LOOKS[name];
    item.innerHTML = `<svg width="28" height="8" aria-hidden="true"><path d="M0 4H28" stroke="var(${colour})" ` +
      `stroke-width="2.5" stroke-dasharray="${dash.join(" ")}"/></svg>${name}`;
  }
};
const draw = () => {
  const now = compute(state), names = now.sectors.length > 1 ? [...now.sectors, "sum"] : ["sum"];
  if (legendOf !== names.join()) legend($("legend"), (legendOf = names.join()).split(","));
  for (const view of Object.values(views)) view(state, now);
};

const inputs = {};
const show = () => {
  for (const control of PAGE.controls) {
    const input = inputs[control.name], value = state[control.name];
    if (control.name === "orders") input.forEach((box, r) => (box.checked = value.includes(r)));
    else if (control.options.length) input.value = value;
    else {
      input.value = control.scale ? Math.log(value) / Math.log(control.scale) : value;
      input.shown.textContent = input.ariaValueText = Number(value) >= 1e4 ? Number(value).toLocaleString("en") : short(value);
    }
  }
  $("preset").value = preset.key;
  $("note").textContent = preset.note;
};
let later = 0;
const remember = () => {
  clearTimeout(later);
  later = setTimeout(() => {
    const base = { ...PAGE.start, ...preset.set }, words = new URLSearchParams({ from: preset.key });
    for (const name of Object.keys(base)) if (state[name] !== base[name]) words.set(name, state[name]);
    history.replaceState(null, "", `#${words}`);
    $("told").textContent = ["c-kernel", "c-row"].map((id) => $(id).parentElement.querySelector(".said").textContent).join(" ");
  }, 250);
};
const update = () => { show(); draw(); };
const choose = (key) => {
  preset = PAGE.presets.find((p) => p.key === key) || PAGE.presets[0];
  state = { ...PAGE.start, ...preset.set };
};
const recall = (address) => {
  clearTimeout(later); // else what waits to be remembered would replace what was just asked for
  const words = new URLSearchParams(new URL(address).hash.slice(1));
  choose(words.get("from"));
  for (const control of PAGE.controls) {
    if (!words.has(control.name)) continue;
    const text = words.get(control.name), value = Number(text);
    if (control.name === "orders") state.orders = [...new Set(text)].filter((r) => "0123".includes(r)).sort().join("");
    else if (control.options.length) { if (control.options.includes(text)) state[control.name] = text; }
    else if (Number.isFinite(value)) {
      const [low, high] = [control.low, control.high].map((v) => (control.scale ? control.scale ** v : v));
      state[control.name] = Math.min(high, Math.max(low, control.whole ? Math.round(value) : value));
    }
  }
  if (words.has("dim")) state.dim -= state.dim % 4;
  update();
};
const moved = (control, input) => {
  if (control.options.length) {
    state[control.name] = input.value;
    if (control.name === "stretch" && input.value === "Llama 3") state.fast = 4;
    if (control.name === "stretch" && input.value === "YaRN") state.fast = 32;
  } else {
    const value = control.scale ? control.scale ** Number(input.value) : Number(input.value);
    state[control.name] = control.whole ? Math.round(value) : value;
  }
  update();
  remember();
};
const build = () => {
  const panel = $("controls"), groups = {};
  for (const control of PAGE.controls) {
    const box = groups[control.group] ||= (() => {
      const made = node("details", {}, panel);
      if (control.group !== "Light cone and near lags") made.open = window.innerWidth > 900 || control.group === "Length";
      node("summary", {}, made, control.group);
      return made;
    })();
    if (control.name === "orders") {
      const field = node("div", { class: "field", role: "group", "aria-label": "orders of the jets" }, box);
      node("span", {}, field, "orders r of jet and light cone");
      inputs.orders = [0, 1, 2, 3].map((r) => {
        const label = node("label", { class: "tick" }, field);
        const tick = node("input", { type: "checkbox", name: `order${r}` }, label);
        node("span", {}, label, String(r));
        tick.addEventListener("change", () => {
          state.orders = inputs.orders.map((b, k) => (b.checked ? k : "")).join("");
          update();
          remember();
        });
        return tick;
      });
      continue;
    }
    const label = node("label", {}, box), top = node("span", {}, label);
    node("span", {}, top, control.label);
    let input;
    if (control.options.length) {
      input = node("select", { name: control.name }, label);
      for (const option of control.options) node("option", { value: option }, input, option);
    } else {
      input = node("input", { type: "range", name: control.name, min: control.low, max: control.high, step: control.step }, label);
      input.shown = node("output", {}, top);
    }
    inputs[control.name] = input;
    input.addEventListener("input", () => moved(control, input));
  }
  for (const group of new Set(PAGE.presets.map((p) => p.group))) {
    const list = node("optgroup", { label: group }, $("preset"));
    for (const p of PAGE.presets.filter((x) => x.group === group)) node("option", { value: p.key }, list, p.label);
  }
  $("preset").addEventListener("change", () => { choose($("preset").value); update(); remember(); });
  legend($("types"), Object.keys(NUMBERS));
};
const theme = () => {
  const wish = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = wish;
  readColours();
};
const measure = () => {
  for (const canvas of document.querySelectorAll("canvas")) sizes.set(canvas, Math.round(canvas.getBoundingClientRect().width));
};
theme();
build();
measure();
recall(location.href);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(); draw(); });
window.addEventListener("resize", () => { measure(); draw(); });
window.addEventListener("hashchange", (event) => recall(event.newURL));
// For tests: the page's formulas against Python's, and the script's time a step.
document.documentElement.space = { parts, roots, amplitude, digits, weights, ladder, temperature, compute, draw, presets: PAGE.presets, start: PAGE.start, get state() { return state; } };
