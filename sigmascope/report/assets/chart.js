// One chart on a canvas for all pages: axes, marks, a tooltip, arrow keys, a closer look.

const WALKED = 5000; // spots that arrow keys walk from left to right

// What is pointed at, in words beside it.
function tell(canvas, spot) {
  const tip = byId("tip");
  tip.hidden = !spot;
  if (!spot) return;
  const [title, ...lines] = spot.mark.says(spot.i, spot.row).filter(Boolean);
  const rest = lines.map((text) => element("div", {}, text));
  tip.replaceChildren(element("strong", {}, title), ...rest);
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + spot.x + 12, box.top + spot.y - tip.offsetHeight - 12];
  const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(x, most)) + scrollX}px`;
  tip.style.top = `${(y > 48 ? y : box.top + spot.y + 14) + scrollY}px`;
}

// spec() gives the axes x and y, {low, high, log, title} and for y perhaps names of rows, the marks
// in the order in which they are drawn, and words for where there is nothing to point at. An axis y
// without ends holds what the marks have in sight. Enter and a click open() a spot; where the
// reader may look closer, look(range) is told at what, null for the whole().
class Chart {
  constructor(canvas, spec, { open = () => {}, look = null, whole = null } = {}) {
    Object.assign(this, { canvas, spec, open, look, whole, spots: [], at: -1, held: null });
    const on = (event, heard) => canvas.addEventListener(event, heard);
    on("pointermove", (event) => this.move(event));
    for (const event of ["pointerleave", "blur"]) on(event, () => this.point(-1));
    on("click", (event) => {
      const k = this.near(event);
      if (k >= 0 && !this.held?.far) this.open(this.spots[k], event.shiftKey);
    });
    on("keydown", (event) => this.key(event) && event.preventDefault());
    if (!look) return;
    on("dblclick", () => look(null));
    on("pointerdown", ({ button, pointerType, offsetX }) => {
      this.held = button === 0 && pointerType === "mouse" ? { from: offsetX, down: true } : null;
    });
    on("pointerup", (event) => this.drop(event.offsetX));
  }

  draw() {
    const { canvas } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0 || height === 0) return;
    const { x, y, marks, empty = "" } = this.spec(width);
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    this.context = canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(this, { width, height, x, y: this.fitted(x, y, marks), spots: [] });
    this.axes();
    this.offer = (spots) => this.spots.push(...spots);
    for (const mark of marks) this.paint(mark);
    if (this.spots.length <= WALKED && !y.rows) this.spots.sort((a, b) => a.x - b.x || a.y - b.y);
    const middle = (this.box.left + this.box.right) / 2;
    if (this.spots.length === 0) this.write(empty, middle, height / 2, "center");
    const spot = this.spots[this.at];
    if (!spot) this.at = -1;
    else if (!y.rows) {
      this.context.strokeStyle = ink("--ink");
      marker(this.context, spot, RING, 6.5);
    }
    this.tell();
  }

  tell() {
    const spot = this.spots[this.at];
    if (spot || this.told) tell(this.canvas, spot);
    this.told = Boolean(spot);
  }

  // The axis y with ends: those it has, or around what the marks have between the ends of x.
  fitted(x, y, marks) {
    if (y.rows || y.low !== undefined) return y;
    const inside = (mark) => (mark.y ? Array.from(mark.y.slice(...sight(mark.x, x))) : []);
    const values = marks.flatMap(inside).filter(Number.isFinite);
    const log = y.log === "auto" ? spansDecades(values) : y.log;
    const least = log && y.floor ? y.floor * extent(values)[1] : -Infinity;
    return { ...y, ...ends(values.filter((v) => v >= least), log) };
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

  // What is drawn stays within the axes, but for words above them.
  paint(mark) {
    const { context, box } = this;
    context.save();
    context.beginPath();
    if (mark.kind === "uprights") context.rect(0, 0, this.width, this.height);
    else context.rect(box.left, box.top - 8, box.right - box.left, box.bottom - box.top + 16);
    context.clip();
    Object.assign(context, { strokeStyle: mark.colour, globalAlpha: mark.alpha ?? 1 });
    context.setLineDash(mark.dash || []);
    MARKS[mark.kind](this, mark);
    context.restore();
  }

  point(k) {
    if (k === this.at) return;
    this.at = k;
    if (this.y?.rows) this.tell(); // many cells are not drawn anew for each that is pointed at
    else this.draw();
  }

  // The nearest spot; in rows, the last one before.
  near({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [clientX - box.left, clientY - box.top];
    const inRow = (s) => (Math.abs(s.y - y) <= this.each / 2 && s.x <= x ? x - s.x : Infinity);
    const far = this.y?.rows ? inRow : (s) => Math.hypot(s.x - x, s.y - y);
    let [best, least] = [-1, this.y?.rows ? Infinity : 24];
    this.spots.forEach((spot, k) => {
      const d = far(spot);
      if (d < least) [best, least] = [k, d];
    });
    return best;
  }

  move(event) {
    const { held, box } = this;
    if (held?.down && Math.abs(event.offsetX - held.from) > 8) held.far = true;
    if (!held?.down || !held.far) return this.point(this.near(event));
    this.canvas.setPointerCapture(event.pointerId);
    this.at = -1;
    this.draw();
    const { context } = this;
    Object.assign(context, { fillStyle: ink("--accent"), globalAlpha: 0.15 });
    context.fillRect(held.from, box.top, event.offsetX - held.from, box.bottom - box.top);
  }

  drop(x) {
    if (!this.held?.down) return;
    this.held.down = false;
    if (this.held.far) this.aim(...[this.held.from, x].sort((a, b) => a - b).map(this.px.back));
  }

  // Look at these ends, kept within the whole and some places apart.
  aim(low, high) {
    const all = this.whole();
    const [middle, half] = [(low + high) / 2, Math.max(4, high - low) / 2];
    const ends = { low: Math.max(all.low, middle - half), high: Math.min(all.high, middle + half) };
    this.look(ends.low <= all.low && ends.high >= all.high ? null : ends);
  }

  // Arrows walk, Enter opens, plus and minus look closer and less close; true if it was a key.
  key({ key, shiftKey }) {
    const last = this.spots.length - 1;
    const before = Math.max(0, this.at - 1);
    const walk = { ArrowRight: this.at + 1, ArrowLeft: before, Home: 0, End: last };
    const rows = { ArrowDown: 1, ArrowUp: -1 }[key];
    const closer = { "+": 0.5, "=": 0.5, "-": 2, Escape: Infinity }[key];
    if (key in walk) this.point(Math.min(last, walk[key]));
    else if (rows && this.y.rows) this.point(this.at < 0 ? 0 : this.beside(rows));
    else if (key === "Enter" && this.at >= 0) this.open(this.spots[this.at], shiftKey);
    else if (closer && this.look) this.closer(closer);
    else return false;
    return true;
  }

  closer(factor) {
    if (factor === Infinity) return this.look(null);
    const { spots, at, box, x } = this;
    const middle = this.px.back(at >= 0 ? spots[at].x : (box.left + box.right) / 2);
    const half = (factor * (x.high - x.low)) / 2;
    this.aim(middle - half, middle + half);
  }

  // The spot of the next row that is least far along.
  beside(rows) {
    const here = this.spots[this.at];
    const far = (s) => (s.row === here.row + rows ? Math.abs(s.x - here.x) : Infinity);
    return this.spots.reduce((a, s, k) => (far(s) < far(this.spots[a]) ? k : a), this.at);
  }
}
