// Small charts on canvas: axes, curves, dots, cells. Colours come from the style sheet.
const LOOKS = {
  rotation: ["--rotation", []], jet: ["--jet", [7, 3]], line: ["--line", [2, 3]],
  "light cone": ["--cone", [9, 3, 2, 3]], "near lags": ["--near", [1, 2]], sum: ["--sum", []],
  fp32: ["--jet", []], fp16: ["--line", [7, 3]], bf16: ["--cone", [2, 3]],
};
let colours = {};
const readColours = () => {
  const style = getComputedStyle(document.documentElement);
  const names = ["--ground", "--ink", "--faint", "--rule", "--rotation", "--jet", "--line", "--cone", "--near", "--sum"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
};
const short = (v) => {
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  if (v === 0) return "0";
  const size = Math.abs(v);
  const text = size >= 1e6 || size < 1e-3 ? v.toExponential(1).replace("e+", "e") : String(Number(v.toPrecision(3)));
  return text.replace("-", "−");
};
const power = (e) => "10" + [...String(e)].map((c) => ({ "-": "⁻" })[c] || "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");

const sizes = new Map(); // canvas -> its width on the page, read outside of drawing
const EDGE = { left: 50, right: 10, top: 8, bottom: 38 };
const begin = (canvas, height) => {
  const width = sizes.get(canvas) || 300, scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
  return [pen, width];
};
const ticks = (low, high, about) => {
  const rough = (high - low) / about || 1, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((x) => x >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
};
// A chart with axes; `x` and `y` are {low, high, ticks: [[value, text], ...], label}.
const chart = (canvas, height, x, y) => {
  const [pen, width] = begin(canvas, height);
  const floor = height - EDGE.bottom, end = width - EDGE.right;
  const px = (v) => EDGE.left + ((v - x.low) / (x.high - x.low || 1)) * (end - EDGE.left);
  const py = (v) => EDGE.top + ((y.high - v) / (y.high - y.low || 1)) * (floor - EDGE.top);
  pen.strokeStyle = colours["--rule"];
  pen.fillStyle = colours["--faint"];
  pen.lineWidth = 1;
  pen.setLineDash([]);
  pen.beginPath();
  pen.textAlign = "center";
  for (const [v, text] of x.ticks) {
    pen.moveTo(px(v), EDGE.top);
    pen.lineTo(px(v), floor);
    pen.fillText(text, Math.min(px(v), width - 14), floor + 15);
  }
  pen.fillText(x.label, (EDGE.left + end) / 2, height - 5);
  pen.textAlign = "right";
  for (const [v, text] of y.ticks) {
    pen.moveTo(EDGE.left, py(v));
    pen.lineTo(end, py(v));
    pen.fillText(text, EDGE.left - 5, py(v) + 4);
  }
  pen.stroke();
  const clip = () => {
    pen.save();
    pen.beginPath();
    pen.rect(EDGE.left, EDGE.top, end - EDGE.left, floor - EDGE.top);
    pen.clip();
  };
  return {
    pen, px, py,
    curve(xs, ys, [colour, dash], wide = 2) {
      clip();
      pen.strokeStyle = colours[colour];
      pen.lineWidth = wide;
      pen.setLineDash(dash);
      pen.beginPath();
      let down = false;
      for (let n = 0; n < xs.length; n++) {
        const v = ys[n];
        if (Number.isNaN(v)) { down = false; continue; }
        const h = Math.max(-1e5, Math.min(1e5, py(v)));
        if (down) pen.lineTo(px(xs[n]), h);
        else pen.moveTo(px(xs[n]), h);
        down = true;
      }
      pen.stroke();
      pen.restore();
    },
    upright(v, text) {
      pen.strokeStyle = colours["--faint"];
      pen.fillStyle = colours["--faint"];
      pen.setLineDash([3, 3]);
      pen.beginPath();
      pen.moveTo(px(v), EDGE.top);
      pen.lineTo(px(v), floor);
      pen.stroke();
      pen.textAlign = "left";
      pen.fillText(text, px(v) + 4, EDGE.top + 11);
    },
    level(v, text) {
      pen.strokeStyle = colours["--faint"];
      pen.fillStyle = colours["--faint"];
      pen.setLineDash([3, 3]);
      pen.beginPath();
      pen.moveTo(EDGE.left, py(v));
      pen.lineTo(end, py(v));
      pen.stroke();
      pen.textAlign = "left";
      pen.fillText(text, EDGE.left + 4, py(v) - 4);
    },
  };
};
const linear = (low, high, about, label) => ({ low, high, label, ticks: ticks(low, high, about).map((v) => [v, short(v)]) });
const decades = (low, high, label) => {
  const step = Math.max(1, Math.ceil((high - low) / 7)), found = [];
  for (let e = Math.ceil(low); e <= high; e += step) found.push([e, power(e)]);
  return { low, high, label, ticks: found };
};
