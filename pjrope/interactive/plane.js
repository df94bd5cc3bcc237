
// The second panel: dots in the complex plane. Comes after page.js, in the same function, and is
// given `plane` (its labels) and `dots(values)`, which gives [[re, im, text], ...].
figure.pjDots = dots; // for tests, as pjCurves

const drawDots = (() => {
  const side = 240, size = side - 44;
  const box = make("div", { style: "display:flex;flex-wrap:wrap;align-items:center;gap:.25rem 1.5rem" });
  const caption = figure.querySelector("figcaption");
  figure.insertBefore(box, caption);
  const map = make("svg:svg", {
    role: "img", "aria-label": plane.alt, viewBox: `0 0 ${side} ${side}`,
    style: `display:block;width:${side}px;max-width:100%`,
  }, box);
  const words = make("div", { style: "flex:1 1 12rem;text-align:left" }, box);
  make("div", {}, words, plane.title);
  const list = make("ul", { style: "margin:0;padding-left:1.2rem" }, words);
  const at = (t) => 30 + ((t + plane.limit) / (2 * plane.limit)) * size;
  const up = (t) => 8 + ((plane.limit - t) / (2 * plane.limit)) * size;
  const write = (x, y, text, more = {}) =>
    make("svg:text", { x, y, fill: "currentColor", "font-size": 13, "text-anchor": "middle", ...more }, map, text);
  const number = (x, y) => {
    const re = x.toFixed(2), im = Math.abs(y).toFixed(2);
    return im === "0.00" ? re : `${re} ${y < 0 ? "−" : "+"} ${im}i`;
  };
  return () => {
    const values = {};
    config.controls.forEach((control, i) => (values[control.name] = valueOf(control, inputs[i])));
    map.replaceChildren();
    list.replaceChildren();
    const faint = { stroke: "currentColor", "stroke-opacity": 0.18 };
    for (const t of [-1, 0, 1]) {
      make("svg:line", { x1: at(t), x2: at(t), y1: 8, y2: 8 + size, ...faint }, map);
      make("svg:line", { x1: 30, x2: 30 + size, y1: up(t), y2: up(t), ...faint }, map);
      write(at(t), 8 + size + 14, String(t));
      write(26, up(t) + 4, String(t), { "text-anchor": "end" });
    }
    write(30 + size / 2, side - 3, "real part");
    write(11, 8 + size / 2, "imaginary part", { transform: `rotate(-90 11 ${8 + size / 2})` });
    make("svg:circle", { cx: at(0), cy: up(0), r: size / (2 * plane.limit), fill: "none", stroke: "currentColor" }, map);
    const found = dots(values);
    for (const [x, y, text] of found) {
      if (Math.max(Math.abs(x), Math.abs(y)) <= plane.limit) {
        make("svg:circle", { class: "pj-dot", cx: at(x), cy: up(y), r: 5, fill: plane.colour }, map);
        if (y === 0) write(at(x) - 9, up(y) + 4, text, { "text-anchor": "end" });
        else write(at(x), up(y) + (y < 0 ? 19 : -9), text);
      }
      make("li", {}, list, `${number(x, y)}: ${text}`);
    }
    if (!found.length) make("li", {}, list, "none");
  };
})();
inputs.forEach((input) => input.addEventListener("input", drawDots));
drawDots();
