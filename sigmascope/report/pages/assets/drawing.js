// Axes, lines and dots on a canvas: what all charts have in common.

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const INKS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

// Round numbers between two ends, about `most` of them; whole numbers where only they are places.
function ticks({ low, high, log, whole }, most) {
  if (!log) {
    const rough = Math.max((high - low) / Math.max(1, most), whole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.max(0, Math.floor(high / step + 1e-9) - first + 1);
    return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }
  const decades = Math.log10(high / low);
  if (decades < 1) return ticks({ low, high, log: false }, most);
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const every = Math.max(1, Math.ceil(decades / most));
  const within = 3 * decades <= most + 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let p = from; p <= to; p += every) found.push(...within.map((m) => m * 10 ** p));
  return found.filter((t) => t >= low * 0.999 && t <= high * 1.001);
}

// The least and the largest of any number of values: arguments of a call are limited.
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
}

// Ends of an axis that holds these values, with a little room on both sides.
function ends(values, log) {
  const known = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  if (known.length === 0) return log ? { low: 0.1, high: 10, log } : { low: 0, high: 1, log };
  const [low, high] = extent(known);
  if (log) {
    const room = Math.max((high / low) ** 0.06, 1.06);
    return { low: low / room, high: high * room, log };
  }
  const room = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
  return { low: low >= 0 && low < room ? Math.min(0, low - room / 2) : low - room, high: high + room, log };
}

function along({ low, high, log }, from, to) {
  const by = log ? Math.log10 : (v) => v;
  const place = (v) => from + ((by(v) - by(low)) / (by(high) - by(low))) * (to - from);
  return Object.assign(place, { back: (x) => low + ((x - from) / (to - from)) * (high - low) }); // of an even scale
}

// An empty chart: clears the canvas at the screen's resolution, draws axes, returns its scales.
function chart(canvas, x, y) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = `11px ${ink("--sans")}`;
  const rows = ticks(y, Math.max(2, Math.floor(height / 36)));
  const left = 12 + Math.max(16, ...rows.map((t) => context.measureText(compact(t, 3)).width));
  const box = { left, right: width - 12, top: (y.title ? 22 : 10) + (y.room || 0), bottom: height - (x.title ? 36 : 22) };
  const [px, py] = [along(x, box.left, box.right), along(y, box.bottom, box.top)];
  context.textBaseline = "middle";
  for (const t of rows) grid(context, [box.left, py(t), box.right, py(t)], compact(t, 3), box.left - 6, "right");
  context.textBaseline = "top";
  const wide = (box.right - box.left) / 52;
  for (const t of ticks(x, Math.max(2, Math.floor(wide)))) {
    const words = x.words ? x.words(t) : compact(t, 3);
    grid(context, [px(t), box.top, px(t), box.bottom], words, px(t), "center", box.bottom + 6);
  }
  context.fillStyle = ink("--soft");
  context.textAlign = "center";
  if (x.title) context.fillText(x.title, (box.left + box.right) / 2, height - 14);
  context.textAlign = "left";
  if (y.title) context.fillText(y.title, 2, 3);
  return { context, box, px, py, ax: x, width, height };
}

function grid(context, [x0, y0, x1, y1], words, x, align, y = y0) {
  context.strokeStyle = ink("--grid");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
  context.fillStyle = ink("--soft");
  context.textAlign = align;
  context.fillText(words, x, y);
}

// A line through points; a gap where one is not on the axes.
function line({ context, px, py }, points, { colour, dash = [], width = 1.75 }) {
  context.save();
  Object.assign(context, { strokeStyle: colour, lineWidth: width, lineJoin: "round" });
  context.setLineDash(dash);
  context.beginPath();
  let pen = false;
  for (const [x, y] of points) {
    const [a, b] = [px(x), py(y)];
    const here = Number.isFinite(a) && Number.isFinite(b);
    if (here) context[pen ? "lineTo" : "moveTo"](a, b);
    pen = here;
  }
  context.stroke();
  context.restore();
}

function dot(context, x, y, radius, colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function ring(context, x, y, colour, radius = 6.5) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
}

// What is drawn stays within the axes.
function within({ context, box }, draw) {
  context.save();
  context.beginPath();
  context.rect(box.left, box.top - 8, box.right - box.left, box.bottom - box.top + 16);
  context.clip();
  draw();
  context.restore();
}

// An area between two curves; an end that is not known, or not on the axes, reaches over the edge.
function band({ context, px, py, box }, points, colour, alpha = 0.16) {
  const y = (v, edge) => (Number.isFinite(py(v)) ? py(v) : edge);
  context.save();
  Object.assign(context, { fillStyle: colour, globalAlpha: alpha });
  context.beginPath();
  for (const [x, , high] of points) context.lineTo(px(x), y(high, box.top - 8));
  for (const [x, low] of points.toReversed()) context.lineTo(px(x), y(low, box.bottom + 8));
  context.fill();
  context.restore();
}

// Points of a series: a disc, or as many corners as tell it from its neighbours.
const CORNERS = [0, 4, 3, -4, -3, 1, 5]; // below zero: turned
function marker(context, x, y, radius, colour, kind) {
  const corners = Math.abs(CORNERS[kind]);
  if (corners < 3) return corners ? ring(context, x, y, colour, radius) : dot(context, x, y, radius, colour);
  const from = CORNERS[kind] < 0 ? Math.PI / corners : 0;
  context.fillStyle = colour;
  context.beginPath();
  for (let k = 0; k < corners; k += 1) {
    const turn = (2 * Math.PI * k) / corners - Math.PI / 2 + from;
    context.lineTo(x + 1.3 * radius * Math.cos(turn), y + 1.3 * radius * Math.sin(turn));
  }
  context.fill();
}

// Points of a chart can be pointed at, walked through by arrow keys, and opened. It has `spots` in
// their order, `at` which of them is pointed at, how to draw() itself and to open() a spot.
function walkable(one) {
  const { canvas } = one;
  const near = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, far] = [-1, 24 * 24];
    one.spots.forEach((spot, k) => {
      const d = (spot.x - x) ** 2 + (spot.y - y) ** 2;
      if (d < far) [best, far] = [k, d];
    });
    return best;
  };
  const point = (k) => {
    if (k === one.at) return;
    one.at = k;
    one.draw();
  };
  canvas.addEventListener("pointermove", (event) => point(near(event)));
  canvas.addEventListener("pointerleave", () => point(-1));
  canvas.addEventListener("blur", () => point(-1));
  canvas.addEventListener("click", (event) => {
    const k = near(event);
    if (k >= 0) one.open(one.spots[k], event.shiftKey);
  });
  canvas.addEventListener("keydown", (event) => {
    const last = one.spots.length - 1;
    const to = { ArrowRight: Math.min(last, one.at + 1), ArrowLeft: Math.max(0, one.at - 1), Home: 0, End: last }[event.key];
    if (to !== undefined) point(to);
    else if (event.key === "Enter" && one.at >= 0) one.open(one.spots[one.at], event.shiftKey);
    else return;
    event.preventDefault();
  });
}

function cross(context, x, y, radius, colour) {
  Object.assign(context, { strokeStyle: colour, lineWidth: 2.5 });
  context.beginPath();
  for (const side of [-1, 1]) {
    context.moveTo(x - radius, y - side * radius);
    context.lineTo(x + radius, y + side * radius);
  }
  context.stroke();
}
