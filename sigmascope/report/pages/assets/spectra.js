// The matrices that were chosen: their spectra, their readings, what was not measured of them.

const BINS = 48;

// Density of λ = σ²/n under the law of Marchenko and Pastur: entries of spread s, sides in ratio q.
function marchenkoPastur(s, q) {
  const [low, high] = [s * s * (1 - Math.sqrt(q)) ** 2, s * s * (1 + Math.sqrt(q)) ** 2];
  const at = (x) => (x <= low || x >= high ? 0 : Math.sqrt((high - x) * (x - low)) / (2 * Math.PI * q * s * s * x));
  return { low, high, at };
}

function readingOf(name, i) {
  const column = COLUMN.get(name);
  return column ? column.row(i) : null;
}

// A spectrum with λ = σ²/n, n the longer side, as its readings of noise have it.
function lawOf(i) {
  const spectrum = spectrumOf(i);
  if (!spectrum) return null;
  const [m, n] = [spectrum.rows, spectrum.cols].sort((a, b) => a - b);
  const [noise, edge, spikes] = ["noise level", "noise edge", "spikes"].map((name) => readingOf(name, i));
  return {
    spectrum,
    total: m,
    lambda: spectrum.sigma.map((s) => (s * s) / n),
    law: noise && noise.value > 0 ? marchenkoPastur(noise.value, m / n) : null,
    edge: edge ? edge.value ** 2 / n : null,
    spikes: spikes ? Math.round(spikes.value) : 0,
  };
}

// Shares of the spectrum per bin. Between two values that were kept lie others, spread evenly here.
function shares(found, edges, by) {
  const mass = new Float64Array(edges.length - 1);
  const [low, width] = [by(edges[0]), (by(edges[edges.length - 1]) - by(edges[0])) / (edges.length - 1)];
  const put = (a, b, weight) => {
    const [from, to] = [(a - low) / width, (b - low) / width];
    for (let k = Math.max(0, Math.floor(from)); k <= Math.min(mass.length - 1, Math.floor(to)); k += 1) {
      const inside = to > from ? (Math.min(to, k + 1) - Math.max(from, k)) / (to - from) : 1;
      mass[k] += weight * Math.max(0, inside);
    }
  };
  const { at } = found.spectrum;
  found.lambda.forEach((x, k) => {
    if (x <= 0) return;
    put(by(x), by(x), 1 / found.total);
    const between = k + 1 < at.length ? at[k + 1] - at[k] - 1 : 0;
    if (between > 0 && found.lambda[k + 1] > 0) put(by(found.lambda[k + 1]), by(x), between / found.total);
  });
  return mass;
}

function drawRanks(all) {
  const known = all.filter(({ found }) => found);
  const sigma = known.flatMap(({ found }) => found.spectrum.sigma);
  const most = Math.max(2, ...known.map(({ found }) => found.spectrum.count));
  const drawn = chart(byId("ranks"), { low: 0.9, high: most * 1.1, log: true, title: "rank" }, { ...ends(sigma, true), title: "singular value" });
  for (const { found, colour, i } of known) {
    const { at, sigma: values } = found.spectrum;
    line(drawn, at.map((k, j) => [k + 1, values[j] > 0 ? values[j] : NaN]), { colour });
    const edge = readingOf("noise edge", i);
    if (edge) line(drawn, [[0.9, edge.value], [most * 1.1, edge.value]], { colour, dash: [5, 4], width: 1 });
    at.forEach((place, k) => {
      if (place < found.spikes && values[k] > 0) dot(drawn.context, drawn.px(place + 1), drawn.py(values[k]), 3, colour);
    });
  }
}

// The axis of λ: all of it in logarithms; else the bulk, with a little beyond the noise edge.
function lambdaAxis(known, log) {
  const values = known.flatMap(({ found }) => found.lambda.filter((x) => x > 0));
  const top = Math.max(...values);
  if (log) {
    const least = Math.max(Math.min(...values), top * 1e-9);
    return { low: least / 1.3, high: top * 1.6, log };
  }
  const bulk = known.map(({ found }) => Math.max(found.edge || 0, found.law ? found.law.high : 0) * 1.35 || top);
  return { low: 0, high: Math.min(top * 1.05, Math.max(...bulk)), log };
}

function drawBulk(all) {
  const known = all.filter(({ found }) => found && found.lambda.some((x) => x > 0));
  const log = byId("loglambda").checked;
  if (known.length === 0) {
    chart(byId("bulk"), { low: 0, high: 1 }, { low: 0, high: 1 });
    return;
  }
  const axis = lambdaAxis(known, log);
  const [by, back] = log ? [Math.log, Math.exp] : [(x) => x, (x) => x];
  const step = (by(axis.high) - by(log ? axis.low : 0)) / BINS;
  const edges = Array.from({ length: BINS + 1 }, (_, k) => back(by(log ? axis.low : 0) + k * step));
  // the density in whatever the axis counts: per λ, or per logarithm of λ
  const laws = known.map(({ found }) => lawLine(found, axis, log));
  const bars = known.map(({ found }) => shares(found, edges, by).map((mass) => mass / step));
  const tops = [...bars.flatMap((b) => [...b]), ...laws.flatMap((l) => l.map(([, y]) => y))].sort((a, b) => a - b);
  // the law has a pole at zero for square matrices: the axis ends a little above the bars
  const most = Math.min(tops[tops.length - 1], 1.4 * Math.max(...bars.flatMap((b) => [...b])));
  const y = { low: 0, high: 1.08 * most || 1, log: false, title: log ? "share per unit of ln λ" : "density" };
  const drawn = chart(byId("bulk"), { ...axis, title: "λ = σ² / longer side" }, y);
  known.forEach(({ found, colour }, k) => drawDensity(drawn, found, { bars: bars[k], law: laws[k], edges, colour, axis, most }));
  byId("beyond").textContent = beyond(known, axis);
}

function lawLine(found, axis, log) {
  if (!found.law) return [];
  const [from, to] = [Math.max(found.law.low, axis.low, axis.high * 1e-9), Math.min(found.law.high, axis.high)];
  const bulk = 1 - Math.min(found.spikes, found.total) / found.total;
  return Array.from({ length: 241 }, (_, k) => {
    const x = log ? from * (to / from) ** (k / 240) : from + (to - from) * (k / 240) ** 2;
    return [x, found.law.at(x) * bulk * (log ? x : 1)];
  });
}

function drawDensity(drawn, found, { bars, law, edges, colour, axis, most }) {
  const { context, px, py, box } = drawn;
  context.save();
  context.beginPath();
  context.rect(box.left, box.top - 8, box.right - box.left, box.bottom - box.top + 8);
  context.clip();
  context.globalAlpha = 0.28;
  context.fillStyle = colour;
  bars.forEach((mass, k) => {
    const left = px(Math.max(edges[k], axis.low));
    context.fillRect(left, py(mass), px(edges[k + 1]) - left, box.bottom - py(mass));
  });
  context.globalAlpha = 1;
  line(drawn, law, { colour, width: 2 });
  if (found.edge) line(drawn, [[found.edge, 0], [found.edge, most * 1.05]], { colour, dash: [5, 4], width: 1.25 });
  context.fillStyle = colour;
  for (const spike of found.lambda.filter((x, k) => found.spectrum.at[k] < found.spikes && x > 0)) {
    const x = px(spike);
    context.beginPath();
    context.moveTo(x, box.bottom);
    context.lineTo(x - 4, box.bottom - 9);
    context.lineTo(x + 4, box.bottom - 9);
    context.fill();
  }
  context.restore();
}

function beyond(known, axis) {
  const words = ["Bars: singular values; curve: the law of Marchenko and Pastur at the fitted noise level; dashed: the noise edge; triangles: spikes."];
  const out = known.map(({ found }) => {
    const last = found.lambda.filter((x) => x > axis.high).length;
    return last > 0 ? found.spectrum.at[last - 1] + 1 : 0;
  });
  const count = out.reduce((a, b) => a + b, 0);
  if (count > 0) words.push(`${count === 1 ? "One value lies" : `${count} values lie`} beyond the right end.`);
  if (known.some(({ found }) => found.spectrum.count < found.total)) words.push("Only the largest values of some were computed.");
  if (known.some(({ found }) => found.spectrum.sigma.includes(0))) words.push("Values of exactly zero are not drawn.");
  return words.join(" ");
}

function readingsTable() {
  const head = ["quantity", ...chosen.map((i) => shortened(SITES[i], 40))].map((t, k) =>
    element("th", { scope: "col" }, k > 0 ? element("span", { class: "key", style: `--tone: var(${INKS[k - 1]})` }, element("bdi", {}, t)) : t)
  );
  const lines = COLUMNS.filter((column) => chosen.some((i) => column.row(i))).map((column) =>
    element("tr", {}, element("th", { scope: "row", title: meaning(column.spec) }, column.name), ...chosen.map((i) => readingCell(column.row(i))))
  );
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
  return element("div", { class: "panel scroll", tabindex: "0", "aria-label": "Readings" }, table);
}

function readingCell(row) {
  if (!row) return element("td", {}, "–");
  const how = `${shown(row.how)}${row.form && row.form !== "matrix" ? `, ${shown(row.form)}` : ""}`;
  return element("td", { title: told(row) }, element("span", { class: "number" }, measured(row)), " ", element("span", { class: "hint" }, how));
}

// What was read of this matrix together with another.
function meetings(i) {
  const found = [];
  data.pairs.site.forEach((site, k) => {
    if (!Array.isArray(site) || (site[0] !== i && site[2] !== i)) return;
    const numbers = PAIRS.filter((column) => column.row(k)).map((column) => `${column.name} ${measured(column.row(k))}`);
    const other = site[0] === i ? site[2] : site[0];
    const link = element("button", { type: "button", class: "link", onclick: () => show(other, true) }, named(SITES[other]));
    const parts = site[0] === i ? [`this ${site[1]} `, link] : [link, ` ${site[1]} this`];
    found.push(element("li", {}, ...parts, `: ${numbers.join(", ")}`));
  });
  return found;
}

function missing(i) {
  return data.skipped.filter(([, , sites]) => sites.includes(i)).map(([what, why]) => element("li", {}, element("strong", {}, shown(what)), `: ${shown(why)}`));
}

function factsOf(i, k) {
  const tensors = data.matrices.tensors[i];
  const found = spectrumOf(i);
  const depth = data.matrices.depth[i] < 0 ? "" : `, depth ${data.matrices.depth[i]}`;
  const form = word("form", i) === "matrix" ? "" : `, as ${shown(word("form", i))}`;
  const facts = `${shown(word("kind", i))}${depth}, ${shape(i)}${form}, ${shown(word("dtype", i))}, ${bytesize(data.matrices.bytes[i])}, ${word("effort", i)} spectrum${found ? ` (${shown(found.how)})` : ""}`;
  const list = (title, items) => (items.length > 0 ? [element("h4", {}, title), element("ul", {}, ...items)] : []);
  const close = element("button", { type: "button", class: "link", "aria-label": `Remove ${shown(SITES[i])}`, onclick: () => toggle(i) }, "remove");
  return element(
    "article",
    { class: "panel one", style: `--tone: var(${INKS[k]})` },
    element("header", {}, element("h3", {}, named(SITES[i])), close),
    element("p", { class: "hint" }, facts),
    tensors ? element("p", { class: "hint" }, "read from ", ...tensors.flatMap((t, n) => (n > 0 ? [", ", named(t)] : [named(t)]))) : null,
    ...list("With others", meetings(i)),
    ...list("Not measured", missing(i))
  );
}

function drawSpectra() {
  const none = chosen.length === 0;
  byId("nothing").hidden = !none;
  byId("one").hidden = none;
  if (none) return;
  const all = chosen.map((i, k) => ({ i, found: lawOf(i), colour: ink(INKS[k]) }));
  const kept = all.some(({ found }) => found);
  byId("pictures").hidden = !kept;
  byId("unkept").hidden = kept;
  if (!kept) return;
  drawRanks(all);
  drawBulk(all);
}

function fillChosen() {
  byId("facts").replaceChildren(...chosen.map(factsOf));
  byId("numbers").replaceChildren(readingsTable());
  drawSpectra();
  drawCharts();
  table.drawRows();
}

// Open a matrix, alone or beside those that are open.
function show(i, beside = false) {
  if (!beside) chosen.length = 0;
  if (!chosen.includes(i)) chosen.push(i);
  if (chosen.length > MOST) chosen.shift();
  fillChosen();
  byId("matrix").scrollIntoView();
}

function toggle(i) {
  const place = chosen.indexOf(i);
  if (place >= 0) chosen.splice(place, 1);
  else chosen.push(i);
  if (chosen.length > MOST) chosen.shift();
  fillChosen();
}
