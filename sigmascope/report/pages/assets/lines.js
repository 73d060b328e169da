// Lines on a canvas with points that can be pointed at, and ranges that can be looked at more closely.

const MANY = 150; // points beyond which single ones are no longer drawn

function tone(index) {
  return ink(INKS[index % INKS.length]);
}

// Whether the values ask for a log scale: positive, and over more than a factor of 30.
function spansDecades(values) {
  const finite = values.filter(Number.isFinite);
  const [least, most] = extent(finite.filter((value) => value > 0));
  return finite.every((value) => value >= 0) && least < most && most >= 30 * least;
}

// What is pointed at, in words beside it.
function tell({ canvas, spots, at }) {
  const [tip, spot] = [byId("tip"), spots[at]];
  tip.hidden = !spot;
  if (!spot) return;
  const [title, ...lines] = spot.says().filter(Boolean);
  tip.replaceChildren(element("strong", {}, title), ...lines.map((text) => element("div", {}, text)));
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + spot.x + 12, box.top + spot.y - tip.offsetHeight - 12];
  const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(x, most)) + scrollX}px`;
  tip.style.top = `${(y > 48 ? y : box.top + spot.y + 14) + scrollY}px`;
}

// Lines and points that can be walked through and looked at more closely. draw(one) is all but what
// is pointed at; whole() the ends of the axis along, look(range) makes others of them, null the whole.
function plotOn(canvas, { draw, open, look, whole }) {
  const one = { canvas, spots: [], at: -1, open, look, whole };
  one.draw = () => {
    one.drawn = draw(one);
    if (one.at >= one.spots.length) one.at = -1;
    if (one.at >= 0) ring(one.drawn.context, one.spots[one.at].x, one.spots[one.at].y, ink("--ink"));
    if (one.at >= 0 || one.told) tell(one);
    one.told = one.at >= 0;
  };
  draggable(one);
  walkable(one);
  canvas.addEventListener("dblclick", () => look(null));
  canvas.addEventListener("keydown", (event) => closer(one, event));
  return one;
}

const LEAST = 4; // places along the axis that are looked at together

// These ends, kept within the whole; null if they are all of it.
function ranged(one, low, high) {
  const all = one.whole();
  const middle = (low + high) / 2;
  const half = Math.max(LEAST, high - low) / 2;
  const found = { low: Math.max(all.low, middle - half), high: Math.min(all.high, middle + half) };
  return found.low <= all.low && found.high >= all.high ? null : found;
}

// Plus and minus look closer at what is pointed at, and less close; Escape at the whole.
function closer(one, event) {
  const factor = { "+": 0.5, "=": 0.5, "-": 2, Escape: Infinity }[event.key];
  if (factor === undefined) return;
  const { px, ax, box } = one.drawn;
  const x = one.at >= 0 ? one.spots[one.at].x : (box.left + box.right) / 2;
  const [middle, half] = [px.back(x), (factor * (ax.high - ax.low)) / 2];
  one.look(factor === Infinity ? null : ranged(one, middle - half, middle + half));
  event.preventDefault();
}

// A range is looked at that is dragged over; a click that ends a drag opens nothing.
function draggable(one) {
  const { canvas } = one;
  const held = { from: null, far: false };
  canvas.addEventListener("pointerdown", (event) => {
    Object.assign(held, { from: event.button === 0 && event.pointerType === "mouse" ? event.offsetX : null, far: false });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held.from === null) return;
    held.far ||= Math.abs(event.offsetX - held.from) > 8;
    if (!held.far) return;
    canvas.setPointerCapture(event.pointerId);
    one.draw();
    const { context, box } = one.drawn;
    Object.assign(context, { fillStyle: ink("--accent"), globalAlpha: 0.15 });
    context.fillRect(held.from, box.top, event.offsetX - held.from, box.bottom - box.top);
  });
  canvas.addEventListener("pointerup", (event) => {
    const { from } = held;
    held.from = null;
    if (!held.far) return;
    const [low, high] = [from, event.offsetX].sort((a, b) => a - b).map(one.drawn.px.back);
    one.look(ranged(one, low, high));
  });
  canvas.addEventListener("click", (event) => held.far && event.stopImmediatePropagation());
}

// One series: its line, its points, and where they can be pointed at. A point is {x, y, says, ...}.
function curve(drawn, points, index, { dash, width = 2, single = true }) {
  const [colour, { px, py, context, box }] = [tone(index), drawn];
  line(drawn, points.map((p) => [p.x, p.y]), { colour, dash, width });
  const spots = points.map((p) => ({ ...p, x: px(p.x), y: py(p.y) })).filter((p) => p.x >= box.left && p.x <= box.right && Number.isFinite(p.y));
  if (single && spots.length <= MANY) for (const spot of spots) marker(context, spot.x, spot.y, 3, colour, index % CORNERS.length);
  return spots;
}
