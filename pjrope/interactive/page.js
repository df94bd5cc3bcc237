// Turns a still picture into a figure with controls. `config` and `compute` are defined above
// this text by interactive.py; `compute(values)` gives {label: [[x, y], ...]}.
const figure = document.getElementById(config.id);
if (!figure) return;
figure.pjCurves = compute; // for tests: the script's formula against Python's

const SVG = "http://www.w3.org/2000/svg";
const make = (tag, attributes = {}, parent = null, text = "") => {
  const node = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
const short = (v) => String(Number(Number(v).toPrecision(4)));
const valueOf = (control, input) => {
  if (control.options) return control.options[input.selectedIndex];
  return control.log ? Math.pow(10, Number(input.value)) : Number(input.value);
};

figure.replaceChildren();
const panel = make("div", { style: "display:flex;flex-wrap:wrap;gap:.25rem 1.5rem" }, figure);
const inputs = config.controls.map((control) => {
  const label = make("label", {
    style: "display:inline-flex;align-items:center;gap:.5rem;min-height:44px;max-width:100%",
  }, panel, control.label + " ");
  if (control.options) {
    const select = make("select", { name: control.name, style: "min-height:44px;font:inherit" }, label);
    control.options.forEach((option) => make("option", {}, select, String(option)));
    select.selectedIndex = control.options.indexOf(control.value);
    return select;
  }
  const range = make("input", {
    type: "range", name: control.name, min: control.low, max: control.high, step: control.step,
    style: "height:44px;flex:1 1 5rem;width:10rem;min-width:5rem",
  }, label);
  range.value = control.value;
  range.shown = make("output", { style: "min-width:3.5em;font-variant-numeric:tabular-nums" }, label);
  return range;
});
const chart = make("svg:svg", { role: "img", "aria-label": config.alt, style: "display:block;width:100%" }, figure);
const legend = make("ul", {
  style: "display:flex;flex-wrap:wrap;gap:0 1.5rem;list-style:none;margin:.25rem 0;padding:0",
}, figure);
if (config.caption) make("figcaption", {}, figure, config.caption);

const ticks = (low, high, about) => {
  const rough = (high - low) / about;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
};

const sample = (look, text) => {
  const item = make("li", { style: "display:inline-flex;align-items:center;gap:.5rem" }, legend);
  const key = make("svg:svg", { width: 32, height: 10, "aria-hidden": "true" }, item);
  make("svg:path", { d: "M0 5H32", fill: "none", ...look }, key);
  make("span", {}, item, text);
};

const draw = () => {
  const values = {};
  config.controls.forEach((control, i) => {
    const value = (values[control.name] = valueOf(control, inputs[i]));
    if (inputs[i].shown) {
      inputs[i].shown.value = short(value);
      inputs[i].setAttribute("aria-valuetext", short(value));
    }
  });
  const curves = Object.entries(compute(values));
  const points = curves.flatMap(([, list]) => list);
  const reduce = (axis, pick) => points.reduce((best, p) => pick(best, p[axis]), points[0][axis]);
  const [x0, x1] = [reduce(0, Math.min), reduce(0, Math.max)];
  const [y0, y1] = config.ylim || [reduce(1, Math.min), reduce(1, Math.max) + 1e-12];

  const width = Math.max(260, Math.round(figure.clientWidth) || 640);
  const height = Math.round(Math.min(340, 160 + width / 4));
  const edge = { left: 52, right: 8, top: 10, bottom: 44 };
  const px = (x) => edge.left + ((x - x0) / (x1 - x0 || 1)) * (width - edge.left - edge.right);
  const py = (y) => edge.top + ((y1 - y) / (y1 - y0 || 1)) * (height - edge.top - edge.bottom);
  const floor = height - edge.bottom;
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.replaceChildren();
  legend.replaceChildren();

  const faint = { stroke: "currentColor", "stroke-opacity": 0.18 };
  const word = (x, y, text, more = {}) =>
    make("svg:text", { x, y, fill: "currentColor", "font-size": 13, "text-anchor": "middle", ...more }, chart, text);
  for (const x of ticks(x0, x1, width / 90)) {
    make("svg:line", { x1: px(x), x2: px(x), y1: edge.top, y2: floor, ...faint }, chart);
    word(px(x), floor + 17, short(x));
  }
  for (const y of ticks(y0, y1, 5)) {
    make("svg:line", { x1: edge.left, x2: width - edge.right, y1: py(y), y2: py(y), ...faint }, chart);
    word(edge.left - 6, py(y) + 4, short(y), { "text-anchor": "end" });
  }
  word((edge.left + width - edge.right) / 2, height - 8, config.xlabel);
  const middle = (edge.top + floor) / 2;
  word(13, middle, config.ylabel, { transform: `rotate(-90 13 ${middle})` });

  for (const [text, x] of Object.entries(config.marks)) {
    const look = { stroke: "currentColor", "stroke-dasharray": "2 3" };
    if (x >= x0 && x <= x1) {
      make("svg:line", { x1: px(x), x2: px(x), y1: edge.top, y2: floor, ...look }, chart);
    }
    sample(look, text);
  }
  // What leaves the axes is cut off there. A value moved to the edge would draw a plateau that the
  // formula has not. A million pixels away a line is upright to the eye, and SVG still has digits.
  const windowId = `${config.id}-window`;
  const frame = make("svg:clipPath", { id: windowId }, chart);
  make("svg:rect", { x: edge.left, y: edge.top, width: width - edge.left - edge.right, height: floor - edge.top }, frame);
  const far = (y) => Math.min(1e6, Math.max(-1e6, y));
  curves.forEach(([text, list], i) => {
    const [colour, dash] = config.looks[i % config.looks.length];
    const look = { stroke: colour, "stroke-width": 2, "stroke-dasharray": dash };
    const d = list.map(([x, y], k) => `${k ? "L" : "M"}${px(x).toFixed(1)} ${far(py(y)).toFixed(1)}`);
    make("svg:path", { class: "pj-curve", d: d.join(""), fill: "none", "clip-path": `url(#${windowId})`, ...look }, chart);
    sample(look, text);
  });
};

inputs.forEach((input) => input.addEventListener("input", draw));
let drawnWidth = figure.clientWidth;
new ResizeObserver(() => {
  if (figure.clientWidth !== drawnWidth) {
    drawnWidth = figure.clientWidth;
    draw();
  }
}).observe(figure);
draw();
