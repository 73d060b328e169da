// Small charts, one for each kind: a quantity over depth, a dot for each matrix.

const CHARTS = 36; // drawn at first; the rest when asked for
const charts = []; // {kind, canvas, says, points, spots, at}

function pointsOf(kind) {
  const found = [];
  for (let i = 0; i < COUNT; i += 1) if (data.matrices.kind.at[i] === kind) found.push(i);
  return found;
}

// Depth where the kind has one; else the order in the checkpoint. What has none among others that do stands left of them.
function placesOf(points) {
  const depths = points.map((i) => data.matrices.depth[i]);
  if (depths.every((depth) => depth < 0)) return { xs: points.map((_, k) => k), words: () => "" };
  return { xs: depths, words: (t) => (t === -1 ? "none" : t >= 0 && Number.isInteger(t) ? String(t) : "") };
}

function quantityShown() {
  return COLUMN.get(byId("quantity").value);
}

function makeCharts(all) {
  const kinds = data.matrices.kind.words.map((_, kind) => kind);
  const made = all ? kinds : kinds.slice(0, CHARTS);
  charts.length = 0;
  for (const kind of made) {
    const name = shown(data.matrices.kind.words[kind]);
    const canvas = element("canvas", { tabindex: "0", role: "img" });
    const says = element("p", { class: "hint says", "aria-live": "polite" }, " ");
    const points = pointsOf(kind);
    const one = { kind, name, canvas, says, points, ...placesOf(points), spots: [], at: -1 };
    one.draw = () => drawChart(one);
    one.open = (spot, beside) => show(spot.i, beside);
    const title = element("h3", { title: name }, shortened(name, 40), element("span", { class: "hint" }, ` ${points.length}`));
    one.figure = element("figure", { class: "panel small" }, title, canvas, says);
    walkable(one);
    charts.push(one);
  }
  byId("charts").replaceChildren(...charts.map((one) => one.figure));
  byId("all").hidden = charts.length === kinds.length;
  byId("all").textContent = `Show all ${kinds.length} kinds`;
}

function chartAxes() {
  const column = quantityShown();
  const log = byId("log").checked;
  const whole = byId("same").checked ? ends([...column.values], log) : null;
  return (one) => ({
    x: { ...ends(one.xs, false), words: one.words },
    y: whole || ends(one.points.map((i) => column.values[i]), log),
  });
}

function drawChart(one, axesOf = chartAxes()) {
  const [column, axes] = [quantityShown(), axesOf(one)];
  if (one.xs.length > 0) {
    const [low, high] = extent(one.xs);
    Object.assign(axes.x, { low: low - 0.5 - (high - low) * 0.02, high: high + 0.5 + (high - low) * 0.02 });
  }
  const drawn = chart(one.canvas, axes.x, axes.y);
  one.spots = [];
  one.points.forEach((i, k) => {
    const v = column.values[i];
    if (Number.isFinite(v) && (v > 0 || !axes.y.log)) one.spots.push({ i, x: drawn.px(one.xs[k]), y: drawn.py(v) });
  });
  one.spots.sort((a, b) => a.x - b.x || a.y - b.y);
  const radius = one.spots.length > 300 ? 1.6 : 2.8;
  const colour = ink("--accent");
  drawn.context.globalAlpha = one.spots.length > 300 ? 0.6 : 0.9;
  for (const spot of one.spots) dot(drawn.context, spot.x, spot.y, radius, colour);
  drawn.context.globalAlpha = 1;
  for (const spot of one.spots) {
    const place = chosen.indexOf(spot.i);
    if (place >= 0) ring(drawn.context, spot.x, spot.y, ink(INKS[place]));
  }
  if (one.spots.length === 0) {
    drawn.context.textAlign = "center";
    drawn.context.fillText("none read", (drawn.box.left + drawn.box.right) / 2, (drawn.box.top + drawn.box.bottom) / 2);
  }
  saysOf(one, column, drawn);
}

function saysOf(one, column, drawn) {
  const left = one.points.filter((i) => Number.isFinite(column.values[i])).length - one.spots.length;
  const spot = one.spots[one.at];
  if (spot) {
    ring(drawn.context, spot.x, spot.y, ink("--ink"));
    const row = column.row(spot.i);
    one.says.replaceChildren(element("bdi", { class: "name" }, shortened(SITES[spot.i], 44)), ` ${measured(row)}`);
  } else one.says.textContent = left > 0 ? `${left} not above zero` : " ";
  one.canvas.setAttribute("aria-label", `${column.name} of ${one.name} over depth, ${plural(one.spots.length, "dot")}; arrow keys walk, Enter opens`);
}

function drawCharts() {
  if (!quantityShown()) return;
  const axes = chartAxes();
  for (const one of charts) drawChart(one, axes);
}

function fillCharts() {
  const options = COLUMNS.map((column) => element("option", { value: column.name }, column.name));
  byId("quantity").replaceChildren(...options);
  if (options.length === 0) return;
  byId("quantity").value = COLUMN.has("spectral norm") ? "spectral norm" : COLUMNS[0].name;
  const choose = () => {
    const { spec } = quantityShown();
    byId("log").checked = spec.scale === "log";
    byId("means").textContent = meaning(spec);
    drawCharts();
  };
  byId("quantity").addEventListener("change", choose);
  byId("log").addEventListener("change", drawCharts);
  byId("same").addEventListener("change", drawCharts);
  byId("all").addEventListener("click", () => {
    makeCharts(true);
    drawCharts();
  });
  byId("log").checked = quantityShown().spec.scale === "log";
  byId("means").textContent = meaning(quantityShown().spec);
  makeCharts(false);
}
