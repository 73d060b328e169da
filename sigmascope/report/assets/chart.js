// One chart on a canvas for all pages: axes, marks, keys, a tooltip, arrow keys, a closer look.

const WALKED = 5000; // spots that arrow keys walk from left to right
const hidden = new Set(); // lines that are not drawn, by the word of their button

// A button for a line, that hides it and shows it again.
pressed("line", (line, { target }) => {
  if (!hidden.delete(line)) hidden.add(line);
  target.setAttribute("aria-pressed", String(!hidden.has(line)));
  redraw();
});

// Words beside the colour that they are drawn in.
function keyOf(words, colour, dashed) {
  return element(dashed ? "span.line dashed" : "span.line", { style: `--tone: ${colour}` }, words);
}

// The part of the axis x that charts look at: of the whole(), unless the reader looks closer. Then
// there may be a button for all of it.
class Sight {
  constructor(whole, button) {
    Object.assign(this, { whole, button, range: null });
    button?.addEventListener("click", () => this.aim(0, Infinity));
  }

  get ends() {
    return this.range || this.whole();
  }

  // So far to both sides of the middle, within the whole and some places apart.
  aim(middle, far) {
    const [all, half] = [this.whole(), Math.max(2, far)];
    const ends = { low: Math.max(all.low, middle - half), high: Math.min(all.high, middle + half) };
    this.range = ends.low <= all.low && ends.high >= all.high ? null : ends;
    if (this.button) this.button.hidden = this.range === null;
    redraw();
  }
}

// spec(width) gives the axes x and y, {low, high, log, title} and for y perhaps names of rows, the
// marks in the order in which they are drawn, keys for the legend of the figure, and words where
// nothing can be pointed at. Of x the ends are those of the sight, if there is one; an axis y
// without ends holds what the marks have in sight. Enter and a click open() a spot.
class Chart {
  constructor(canvas, { open = () => {}, sight = null }, spec) {
    Object.assign(this, { canvas, spec, open, sight, spots: [], at: -1, held: null });
    canvas.chart = this;
    const on = (event, heard) => canvas.addEventListener(event, heard);
    for (const event of ["pointerleave", "blur"]) on(event, () => this.point(-1));
    on("pointermove", (event) => this.move(event));
    on("keydown", (event) => this.key(event) && event.preventDefault());
    on("click", (event) => {
      const k = this.near(event);
      if (k >= 0 && !this.held?.far) open(this.spots[k], event.shiftKey);
    });
    const other = () => canvas.clientWidth !== this.width || canvas.clientHeight !== this.height;
    new ResizeObserver(once(() => other() && this.draw())).observe(canvas);
    if (!sight) return;
    on("dblclick", () => sight.aim(0, Infinity));
    on("pointerdown", ({ button, pointerType, offsetX }) => {
      this.held = button === 0 && pointerType === "mouse" ? { from: offsetX } : null;
    });
    on("pointerup", ({ offsetX }) => {
      if (!this.held?.far) return;
      const [a, b] = [this.held.from, offsetX].map(this.px.back);
      sight.aim((a + b) / 2, Math.abs(a - b) / 2);
    });
  }

  draw() {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (width === 0 || height === 0) return;
    const { x, y, marks, keys, empty = "" } = this.spec(width);
    if (keys) canvas.closest("figure").querySelector(".legend").replaceChildren(...keys);
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(this, { width, height, context, spots: [], x: { ...x, ...this.sight?.ends }, y });
    // an axis y without ends: around what the marks have between the ends of x
    if (!y.rows && y.low === undefined) {
      const inside = (mark) => (mark.y ? Array.from(mark.y.slice(...sight(mark.x, this.x))) : []);
      const values = marks.flatMap(inside).filter(Number.isFinite);
      const log = y.log === "auto" ? spansDecades(values) : y.log;
      const least = log && y.floor ? y.floor * extent(values)[1] : -Infinity;
      Object.assign(y, ends(values.filter((v) => v >= least), log));
    }
    this.axes();
    const { spots, box } = this;
    for (const mark of marks) {
      context.save();
      context.beginPath();
      // what is drawn stays within the axes, but for words above them
      if (mark.kind === "uprights") context.rect(0, 0, width, height);
      else context.rect(box.left, box.top - 8, box.right - box.left, box.bottom - box.top + 16);
      context.clip();
      Object.assign(context, { strokeStyle: mark.colour, globalAlpha: mark.alpha ?? 1 });
      context.setLineDash(mark.dash || []);
      MARKS[mark.kind](this, mark);
      context.restore();
    }
    if (spots.length <= WALKED && !y.rows) spots.sort((a, b) => a.x - b.x || a.y - b.y);
    if (spots.length === 0) this.write(empty, (box.left + box.right) / 2, height / 2, "center");
    if (!spots[this.at]) this.at = -1;
    context.strokeStyle = ink("--ink");
    if (this.at >= 0 && !y.rows) marker(context, spots[this.at], RING, 6.5);
    this.tell();
  }

  // What is pointed at, in words beside it.
  tell() {
    const [tip, spot, root] = [byId("tip"), this.spots[this.at], document.documentElement];
    if (!spot && tip.chart !== this) return;
    Object.assign(tip, { chart: this, hidden: !spot });
    if (!spot) return;
    const [title, ...lines] = spot.mark.says(spot.i, spot.row).filter(Boolean);
    const rest = lines.map((text) => element("div", {}, text));
    tip.replaceChildren(element("strong", {}, title), ...rest);
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [box.left + spot.x + 12, box.top + spot.y - tip.offsetHeight - 12];
    const left = Math.max(8, Math.min(x, root.clientWidth - tip.offsetWidth - 8));
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(y > 48 ? y : box.top + spot.y + 14) + scrollY}px`;
  }

  write(words, x, y, align, baseline = "middle") {
    const how = { fillStyle: ink("--soft"), textAlign: align, textBaseline: baseline };
    Object.assign(this.context, { ...how, font: `11px ${ink("--sans")}` }).fillText(words, x, y);
  }

  axes() {
    const { context, width, height, x, y } = this;
    this.write("", 0, 0, "left");
    const rows = y.rows || ticks(y, Math.max(2, Math.floor(height / 36)));
    const names = y.rows || rows.map((t) => compact(t, 3));
    const wide = Math.max(16, ...names.map((name) => context.measureText(name).width));
    const left = 12 + Math.min(wide, 0.4 * width);
    const top = y.rows ? 2 : (y.title ? 22 : 10) + (y.room || 0);
    const box = { left, right: width - 12, top, bottom: height - (x.title ? 36 : 22) };
    const each = (box.bottom - box.top) / rows.length;
    const px = scale(x, box.left, box.right);
    const py = y.rows ? (i) => box.top + (i + 0.5) * each : scale(y, box.bottom, box.top);
    Object.assign(this, { box, px, py, each });
    Object.assign(context, { strokeStyle: ink("--grid"), lineWidth: 1 });
    const every = y.rows ? Math.max(1, Math.ceil(12 / each)) : 1;
    rows.forEach((t, i) => {
      const at = py(y.rows ? i : t);
      if (!y.rows) path(context, [[box.left, at], [box.right, at]], "stroke");
      if (i % every === 0) this.write(names[i], box.left - 6, at, "right");
    });
    for (const t of ticks(x, Math.max(2, Math.floor((box.right - box.left) / 52)))) {
      path(context, [[px(t), y.rows ? box.bottom : box.top], [px(t), box.bottom]], "stroke");
      this.write(x.words ? x.words(t) : compact(t, 3), px(t), box.bottom + 6, "center", "top");
    }
    this.write(x.title || "", (box.left + box.right) / 2, height - 14, "center", "top");
    this.write(y.title || "", 2, 3, "left", "top");
  }

  point(k) {
    if (k === this.at) return;
    this.at = k;
    if (this.y?.rows) this.tell(); // many cells are not drawn anew for each that is pointed at
    else this.draw();
  }

  // The nearest spot; in rows, the last one before.
  near({ offsetX: x, offsetY: y }) {
    const inRow = (s) => (Math.abs(s.y - y) <= this.each / 2 && s.x <= x ? x - s.x : Infinity);
    if (this.y?.rows) return nearest(this.spots, inRow);
    return nearest(this.spots, (s) => Math.hypot(s.x - x, s.y - y), 24);
  }

  // What the mouse points at, or the part that it is drawn over.
  move(event) {
    const { held, box } = this;
    const drawn = held && event.buttons === 1;
    if (drawn && Math.abs(event.offsetX - held.from) > 8) held.far = true;
    if (!drawn || !held.far) return this.point(this.near(event));
    this.canvas.setPointerCapture(event.pointerId);
    this.at = -1;
    this.draw();
    Object.assign(this.context, { fillStyle: ink("--accent"), globalAlpha: 0.15 });
    this.context.fillRect(held.from, box.top, event.offsetX - held.from, box.bottom - box.top);
  }

  // Arrows walk, in rows to the spot of the next that is least far along, Enter opens, plus and
  // minus look closer and less close; true if it was a key.
  key({ key, shiftKey }) {
    const { spots, at, x, y, px, box, sight } = this;
    const { x: here, row } = spots[at] ?? { x: (box.left + box.right) / 2 };
    const last = spots.length - 1;
    const walk = { ArrowRight: at + 1, ArrowLeft: Math.max(0, at - 1), Home: 0, End: last };
    const rows = y.rows && { ArrowDown: 1, ArrowUp: -1 }[key];
    const closer = sight && { "+": 0.5, "=": 0.5, "-": 2, Escape: Infinity }[key];
    const beside = nearest(spots, (s) => (s.row === row + rows ? Math.abs(s.x - here) : Infinity));
    if (key in walk) this.point(Math.min(last, walk[key]));
    else if (rows) this.point(at < 0 ? 0 : beside < 0 ? at : beside);
    else if (key === "Enter" && at >= 0) this.open(spots[at], shiftKey);
    else if (closer) sight.aim(px.back(here), (closer * (x.high - x.low)) / 2);
    else return false;
    return true;
  }
}
