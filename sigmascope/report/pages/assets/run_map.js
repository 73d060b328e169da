// A map of one quantity: a row for each layer, steps from left to right, one map for each run.

const ROWS = [90, 560]; // pixels, at least and at most
const LABELLED = 12; // pixels that a row needs to have its name beside it

const maps = tracks.map((track) => {
  const canvas = element("canvas", { class: "map", tabindex: "0", role: "img" });
  const title = element("h3", {});
  const keys = element("div", { class: "legend" });
  const figure = element("figure", { class: "panel", hidden: "" }, element("figcaption", {}, title, keys), canvas);
  const one = { track, canvas, title, keys, figure, at: null };
  canvas.addEventListener("pointermove", (event) => pointMap(one, event.offsetX, event.offsetY));
  canvas.addEventListener("pointerleave", () => pointMap(one, -1, -1));
  canvas.addEventListener("blur", () => pointMap(one, -1, -1));
  canvas.addEventListener("click", () => one.at && openSite(one.at.line.site, one.at.line.steps[one.at.i]));
  canvas.addEventListener("keydown", (event) => walkMap(one, event));
  return one;
});
byId("maps").replaceChildren(...maps.map(({ figure }) => figure));

// Lines that have a row, and the ends of the scale of colours, which all maps share.
function mapped() {
  const sites = sitesHere();
  const rows = tracks.map((track) => sites.map((site) => track.of(state.key).lines.get(site)).filter(Boolean));
  const x = state.range || wholeSteps();
  let [least, most] = [Infinity, -Infinity];
  for (const line of rows.flat()) {
    const [from, to] = inSight(line, x);
    for (let i = from; i < to; i += 1) {
      const v = line.values[i];
      if (!Number.isFinite(v) || (state.log && v <= 0)) continue;
      if (v < least) least = v;
      if (v > most) most = v;
    }
  }
  return { rows, x, least, most };
}

function drawMaps() {
  const { rows, x, least, most } = mapped();
  const panel = panelsThere().get(state.key);
  const none = !panel || rows.every((lines) => lines.length === 0);
  byId("map-says").textContent = none
    ? "Nothing was read of a layer yet."
    : `The quantity chosen above at every layer, ${state.log ? "in logarithms, " : ""}from the first layer at the top; each place has the last reading before it. Choose one to see its layer alone.`;
  maps.forEach((one, i) => {
    one.figure.hidden = none || rows[i].length === 0;
    if (one.figure.hidden) return;
    one.title.textContent = `${shown(panelName(panel))}${tracks.length > 1 ? `, ${runName(one.track)}` : ""}`;
    const colours = [0, 0.25, 0.5, 0.75, 1].map((t) => `rgb(${shadeAt(t).join(" ")})`);
    const unit = meaningOf(panel.quantity).unit;
    one.keys.replaceChildren(scaleKey(compact(least, 3), `${compact(most, 3)}${unit ? ` ${unit}` : ""}`, colours));
    drawMap(one, rows[i], { x, least, most });
  });
}

function drawMap(one, lines, { x, least, most }) {
  const { canvas } = one;
  const height = Math.min(Math.max(lines.length * 18, ROWS[0]), ROWS[1]);
  canvas.style.height = `${height + 40}px`;
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round((height + 40) * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = `11px ${ink("--sans")}`;
  const names = lines.map((line) => shortened(line.site, width < 500 ? 14 : 30));
  const left = 10 + Math.min(Math.max(...names.map((name) => context.measureText(name).width)), width * 0.4);
  const box = { left, right: width - 12, top: 2, bottom: height };
  const px = along(x, box.left, box.right);
  Object.assign(one, { box, px, x, lines, each: height / lines.length, context });
  paint(one, { least, most });
  label(one, names);
  context.textBaseline = "top";
  for (const t of ticks(x, Math.max(2, Math.floor((box.right - box.left) / 52)))) {
    grid(context, [px(t), box.bottom, px(t), box.bottom + 4], compact(t, 3), px(t), "center", box.bottom + 7);
  }
  context.fillText("step", (box.left + box.right) / 2, height + 26);
  const ends = [0, lines.length - 1].map((i) => shortened(lines[i].site, 40));
  canvas.setAttribute("aria-label", `Map of ${plural(lines.length, "layer")} over steps, from ${ends[0]} to ${ends[1]}, colours from ${compact(least, 3)} to ${compact(most, 3)}; arrow keys walk, Enter chooses`);
}

// A column of pixels has the last reading at or before its right end.
function paint({ context, box, px, lines, each }, { least, most }) {
  const columns = Math.max(1, Math.round(box.right - box.left));
  const image = new ImageData(columns, lines.length);
  const pixels = new Uint32Array(image.data.buffer);
  const by = state.log ? Math.log : (v) => v;
  const [from, span] = [by(least), by(most) - by(least) || 1];
  const palette = Uint32Array.from({ length: 256 }, (_, i) => {
    const [r, g, b] = shadeAt(i / 255);
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
  lines.forEach((line, row) => {
    let k = 0;
    const first = Math.floor(px(line.steps[0]) - box.left);
    const last = Math.ceil(px(line.steps[line.steps.length - 1]) - box.left);
    for (let c = Math.max(0, first); c < columns && c <= Math.max(last, first + 1); c += 1) {
      const edge = px.back(box.left + c + 1);
      while (k + 1 < line.steps.length && line.steps[k + 1] <= edge) k += 1;
      const t = (by(line.values[k]) - from) / span;
      if (t === -Infinity || (state.log && line.values[k] <= 0)) pixels[row * columns + c] = palette[0]; // zero, in logarithms
      else if (Number.isFinite(t)) pixels[row * columns + c] = palette[Math.round(Math.min(Math.max(t, 0), 1) * 255)];
      else if (t === Infinity) pixels[row * columns + c] = palette[255];
    }
  });
  const sheet = new OffscreenCanvas(columns, lines.length);
  sheet.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.fillStyle = ink("--grid");
  context.fillRect(box.left, box.top, columns, box.bottom - box.top);
  context.drawImage(sheet, box.left, box.top, columns, box.bottom - box.top);
  if (each < 6) return;
  context.fillStyle = ink("--card");
  for (let i = 1; i < lines.length; i += 1) context.fillRect(box.left, box.top + (i * (box.bottom - box.top)) / lines.length - 0.5, columns, 1);
}

function label({ context, box, lines, each }, names) {
  Object.assign(context, { fillStyle: ink("--soft"), textAlign: "right", textBaseline: "middle" });
  const every = Math.max(1, Math.ceil(LABELLED / each));
  const room = box.left - 8;
  for (let i = 0; i < lines.length; i += every) {
    let name = names[i];
    for (let cut = 24; context.measureText(name).width > room && cut > 4; cut -= 2) name = shortened(lines[i].site, cut);
    context.fillText(name, box.left - 6, box.top + (i + 0.5) * ((box.bottom - box.top) / lines.length));
  }
}

function pointMap(one, x, y) {
  const { box, lines, px } = one;
  if (!lines) return;
  const row = Math.floor(((y - box.top) / (box.bottom - box.top)) * lines.length);
  one.at = x >= box.left && x <= box.right && lines[row] ? cellAt(lines[row], px.back(x), row) : null;
  const middle = (i) => box.top + (i + 0.5) * ((box.bottom - box.top) / lines.length);
  const spot = one.at && { x, y: middle(row), says: () => new Spot(0, 0, dressed(one.at.line, one.track, state.key), one.at.i).says() };
  tell({ canvas: one.canvas, spots: spot ? [spot] : [], at: 0 });
}

function cellAt(line, step, row) {
  let i = inSight(line, { low: step, high: step })[0];
  while (i + 1 < line.steps.length && line.steps[i + 1] <= step) i += 1;
  return line.steps[i] <= step ? { line, i, row } : null;
}

function walkMap(one, event) {
  const { at, lines, box, px } = one;
  if (event.key === "Enter" && at) openSite(at.line.site, at.line.steps[at.i]);
  const move = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  if (!move || !lines) return;
  const row = at ? Math.min(Math.max(at.row + move[1], 0), lines.length - 1) : 0;
  const line = lines[row];
  const i = at ? Math.min(Math.max(at.i + move[0], 0), line.steps.length - 1) : line.steps.length - 1;
  const x = Math.min(Math.max(px(line.steps[i]), box.left), box.right);
  pointMap(one, x + 1e-6, box.top + (row + 0.5) * ((box.bottom - box.top) / lines.length));
  event.preventDefault();
}
