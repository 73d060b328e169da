// Marks of a chart, each by its kind, in columns: what a line, a band or a bar looks like.

const MANY = 150; // points of a line beyond which single ones are not drawn
const NEAR = 3; // pixels between two points that can be pointed at

// Shapes of radius one that tell series apart: of these the ring and the cross are lines.
const SHAPES = [
  "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0",
  "M0-1.3L1.3,0L0,1.3L-1.3,0z",
  "M0-1.3L1.1.65L-1.1.65z",
  "M-.9-.9h1.8v1.8h-1.8z",
  "M0,1.3L1.1-.65L-1.1-.65z",
  "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0z",
  "M0-1.3L1.2-.4L.8,1L-.8,1L-1.2-.4z",
  "M-1-1L1,1M-1,1L1-1",
].map((path) => new Path2D(path));
const [DOWN, RING, CROSS] = [4, 5, 7];

function path(context, points, close) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context[close]();
}

function marker(context, { x, y }, shape, radius) {
  context.save();
  context.translate(x, y);
  context.scale(radius, radius);
  Object.assign(context, { lineWidth: 2.4 / radius, fillStyle: context.strokeStyle });
  context[[RING, CROSS].includes(shape) ? "stroke" : "fill"](SHAPES[shape]);
  context.restore();
}

// The intervals of a line as an area, where they are wide enough to see.
function intervals({ x, y, low, high, colour }) {
  const wide = y.some((value, i) => matters({ value, low: low[i], high: high[i] }));
  return wide ? [{ kind: "band", x, low, high, colour, alpha: 0.16 }] : [];
}

const MARKS = {
  // {x, y}: through points, with a gap where one is not on the axes. With says(i) they can be
  // pointed at; not joined, they are points alone.
  line({ context, px, py, box, x: axis, spots }, mark) {
    const { x, y, width = 2, joined = true, dots = true, shape = 0, radius } = mark;
    Object.assign(context, { lineWidth: width, lineJoin: width > 1 ? "round" : "bevel" });
    const [from, to] = sight(x, axis);
    const points = [];
    let pen = "moveTo";
    context.beginPath();
    for (let i = from; i < Math.min(to, x.length); i += 1) {
      const spot = { x: px(x[i]), y: py(y[i]), mark, i };
      const here = Number.isFinite(spot.y);
      if (here) context[pen](spot.x, spot.y);
      if (here && spot.x >= box.left - 1 && spot.x <= box.right + 1) points.push(spot);
      pen = here && joined ? "lineTo" : "moveTo";
    }
    context.stroke();
    context.setLineDash([]);
    const single = dots && (points.length <= MANY || !joined) ? points : [];
    for (const p of single) marker(context, p, shape, radius ?? (points.length < 3 ? 4 : 3));
    let last = -Infinity;
    for (const point of mark.says ? points : []) {
      if (joined && point.x - last < NEAR) continue;
      last = point.x;
      spots.push(point);
    }
  },

  // {x, low, high}: an area, from side to side without x; an end that is not on the axes reaches
  // over the edge.
  band({ context, px, py, box, x: axis }, { x = [axis.low, axis.high], low, high }) {
    const at = (v, edge) => (Number.isFinite(py(v)) ? py(v) : edge);
    const above = Array.from(x, (v, i) => [px(v), at(high[i], box.top - 8)]);
    const below = Array.from(x, (v, i) => [px(v), at(low[i], box.bottom + 8)]);
    context.fillStyle = context.strokeStyle;
    path(context, [...above, ...below.reverse()], "fill");
  },

  // {x}: from top to bottom; with words they are written above, each in its line.
  uprights({ context, px, box }, { x, width = 1.5, words = "", row = 0 }) {
    context.lineWidth = width;
    for (const a of x.map(px).filter((p) => p >= box.left && p <= box.right)) {
      path(context, [[a, box.top], [a, box.bottom]], "stroke");
      const late = a > box.left + 0.65 * (box.right - box.left);
      const how = { textAlign: late ? "right" : "left", textBaseline: "bottom" };
      Object.assign(context, { ...how, fillStyle: context.strokeStyle });
      context.fillText(words, a + (late ? -4 : 4), box.top - 2 - 16 * row);
    }
  },

  // {rows: [{x, y}], shade(v)}: a row of colours for each line, the last reading up to the next.
  cells({ context, px, py, box, spots }, mark) {
    const tall = py(1) - py(0);
    const gap = tall < 6 ? 0 : 1;
    mark.rows.forEach(({ x, y }, row) => {
      const top = py(row) - tall / 2;
      const edges = [...Array.from(x, px), px(x.at(-1)) + 1].map(Math.floor);
      for (let i = 0; i < x.length; i += 1) {
        const [from, to] = [edges[i], edges[i + 1]];
        if (to < box.left || from > box.right || from === to) continue;
        context.fillStyle = mark.shade(y[i]);
        context.fillRect(from, top, Math.max(to - from, 1), tall - gap);
        spots.push({ x: Math.max(from, box.left), y: top + tall / 2, mark, i, row });
      }
    });
  },
};

// A spectrum as a mark of a chart, and the axis of its ranks.
function spectrumMark({ title, sigma, rank, count }, looks) {
  const says = (k) => [title, `value ${rank[k]} of ${count}: ${compact(sigma[k])}`];
  return { kind: "line", x: rank, y: sigma, says, dots: sigma.length <= 80, ...looks };
}

const rankAxis = (most) => ({ low: 0.9, high: most * 1.1, log: true, title: "rank" });
