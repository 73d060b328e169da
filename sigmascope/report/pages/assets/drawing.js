// Axes, lines and dots on a canvas: what the charts of a scan have in common.

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const INKS = ["--c0", "--c1", "--c2", "--c3"];

// Round numbers between two ends, about `most` of them.
function ticks({ low, high, log }, most) {
  if (!log) {
    const rough = (high - low) / Math.max(1, most);
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
  return (v) => from + ((by(v) - by(low)) / (by(high) - by(low))) * (to - from);
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
  const box = { left, right: width - 12, top: y.title ? 22 : 10, bottom: height - (x.title ? 36 : 22) };
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
  return { context, box, px, py, width, height };
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

function ring(context, x, y, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, 6.5, 0, 2 * Math.PI);
  context.stroke();
}

// Draws are asked for often and done once, before the next picture.
function once(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
