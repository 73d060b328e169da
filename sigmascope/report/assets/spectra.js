// The matrices that were chosen: their spectra, their readings, what was not measured of them.

const BINS = 48;

// Singular values of one matrix with their ranks; null where none were kept.
function spectrumOf(i) {
  if (!data.spectra[i]) return null;
  const [count, text, rows = TALL[i], cols = WIDE[i]] = data.spectra[i];
  const title = shortened(SITES[i], 44);
  return { title, ...valuesOf(text, count), rows, cols };
}

// Density of λ = σ²/n by the law of Marchenko and Pastur: entries of spread s, sides in ratio q.
function marchenkoPastur(s, q) {
  const [low, high] = [-1, 1].map((sign) => s * s * (1 + sign * Math.sqrt(q)) ** 2);
  const inside = (x) => Math.sqrt((high - x) * (x - low)) / (2 * Math.PI * q * s * s * x);
  return { low, high, at: (x) => (x <= low || x >= high ? 0 : inside(x)) };
}

// A spectrum with λ = σ²/n, n the longer side, as its readings of noise have it.
function lawOf(i) {
  const spectrum = spectrumOf(i);
  if (!spectrum) return null;
  const [m, n] = [spectrum.rows, spectrum.cols].sort((a, b) => a - b);
  const value = (name) => COLUMN.get(name)?.row(i)?.value;
  const [noise, edge] = [value("noise level"), value("noise edge")];
  const [spikes, total] = [Math.round(value("spikes") ?? 0), m];
  const lambda = spectrum.sigma.map((s) => (s * s) / n);
  const law = noise > 0 ? marchenkoPastur(noise, m / n) : null;
  return { spectrum, total, lambda, law, sigmaEdge: edge, edge: edge && edge ** 2 / n, spikes };
}

// Shares of the spectrum per bin; between two values that were kept, others are spread evenly.
function shares({ lambda, total, spectrum: { rank } }, edges, by) {
  const mass = new Float64Array(edges.length - 1);
  const [low, width] = [by(edges[0]), (by(edges.at(-1)) - by(edges[0])) / mass.length];
  const put = (a, b, weight) => {
    const [from, to] = [(a - low) / width, (b - low) / width];
    const last = Math.min(mass.length - 1, Math.floor(to));
    for (let k = Math.max(0, Math.floor(from)); k <= last; k += 1) {
      const inside = to > from ? (Math.min(to, k + 1) - Math.max(from, k)) / (to - from) : 1;
      mass[k] += weight * Math.max(0, inside);
    }
  };
  lambda.forEach((x, k) => {
    if (x <= 0) return;
    put(by(x), by(x), 1 / total);
    const between = k + 1 < rank.length ? rank[k + 1] - rank[k] - 1 : 0;
    if (between > 0 && lambda[k + 1] > 0) put(by(lambda[k + 1]), by(x), between / total);
  });
  return mass;
}

// What was chosen and has a spectrum, with the colour of its place.
function known() {
  const all = chosen.map((i, k) => ({ i, colour: tone(k), ...lawOf(i) }));
  return all.filter(({ spectrum }) => spectrum);
}

const ranks = new Chart(byId("ranks"), () => {
  const marks = known().flatMap(({ colour, spectrum, sigmaEdge, spikes }) => {
    const { rank, sigma } = spectrum;
    const first = rank.filter((r) => r <= spikes).length;
    const out = { x: rank.slice(0, first), y: sigma.slice(0, first), joined: false, colour };
    const edge = { x: [0.9, 1e9], y: [sigmaEdge ?? NaN, sigmaEdge ?? NaN], dots: false, colour };
    return [
      spectrumMark(spectrum, { dots: false, colour }),
      { kind: "line", ...edge, dash: [5, 4], width: 1 },
      { kind: "line", ...out },
    ];
  });
  const most = Math.max(2, ...known().map(({ spectrum }) => spectrum.count));
  return { x: rankAxis(most), y: { log: true, title: "singular value" }, marks };
});

// The axis of λ: all of it in logarithms; else the bulk, with a little beyond the noise edge.
function lambdaAxis(all, log) {
  const title = "λ = σ² / longer side";
  const [least, top] = extent(all.flatMap(({ lambda }) => lambda.filter((x) => x > 0)));
  if (log) return { low: Math.max(least, top * 1e-9) / 1.3, high: top * 1.6, log, title };
  const bulk = all.map(({ edge, law }) => Math.max(edge || 0, law?.high || 0) * 1.35 || top);
  return { low: 0, high: Math.min(top * 1.05, Math.max(...bulk)), title };
}

// The law without the mass of the spikes, per λ or per logarithm of λ.
function lawLine({ law, spikes, total }, axis) {
  if (!law) return { x: [], y: [] };
  const [from, to] = [Math.max(law.low, axis.low, axis.high * 1e-9), Math.min(law.high, axis.high)];
  const at = (t) => (axis.log ? from * (to / from) ** t : from + (to - from) * t ** 2);
  const x = Array.from({ length: 241 }, (_, k) => at(k / 240));
  const bulk = 1 - Math.min(spikes, total) / total;
  return { x, y: x.map((v) => law.at(v) * bulk * (axis.log ? v : 1)) };
}

const bulk = new Chart(byId("bulk"), () => {
  const all = known().filter(({ lambda }) => lambda.some((x) => x > 0));
  if (all.length === 0) return { x: { low: 0, high: 1 }, y: { low: 0, high: 1 }, marks: [] };
  const x = lambdaAxis(all, byId("loglambda").checked);
  const place = scale(x, 0, BINS);
  const edges = Array.from({ length: BINS + 1 }, (_, k) => place.back(k));
  const by = x.log ? Math.log : (v) => v;
  const step = (by(x.high) - by(x.low)) / BINS;
  const drawn = all.map((one) => {
    const heights = Array.from(shares(one, edges, by), (mass) => mass / step);
    return { ...one, heights, law: lawLine(one, x) };
  });
  // the law has a pole at zero for square matrices: the axis ends a little above the bars
  const bars = extent(drawn.flatMap(({ heights }) => heights))[1];
  const top = Math.min(1.4 * bars, Math.max(bars, extent(drawn.flatMap(({ law }) => law.y))[1]));
  const marks = drawn.flatMap(({ colour, heights, law, edge, spikes, lambda, spectrum }) => {
    const out = lambda.filter((v, k) => spectrum.rank[k] <= spikes && v > 0);
    const down = { joined: false, shape: 4, radius: 4 };
    return [
      { kind: "bars", edges, heights, colour, alpha: 0.28 },
      { kind: "line", ...law, colour, dots: false },
      { kind: "uprights", x: edge ? [edge] : [], colour, dash: [5, 4], width: 1.25 },
      { kind: "line", x: [...out].reverse(), y: out.map(() => 0), colour, ...down },
    ];
  });
  byId("beyond").textContent = beyond(all, x);
  const title = x.log ? "share per unit of ln λ" : "density";
  return { x, y: { low: 0, high: 1.08 * top || 1, title }, marks };
});

function beyond(all, { high }) {
  const out = all.map(({ lambda, spectrum }) => {
    const last = lambda.filter((x) => x > high).length;
    return last > 0 ? spectrum.rank[last - 1] : 0;
  });
  const count = out.reduce((a, b) => a + b, 0);
  const some = (holds, words) => (holds ? [words] : []);
  const lie = count === 1 ? "One value lies" : `${count} values lie`;
  const part = all.some(({ spectrum, total }) => spectrum.count < total);
  return [
    ...some(count > 0, `${lie} beyond the right end.`),
    ...some(part, "Only the largest values of some were computed."),
    ...some(all.some(({ lambda }) => lambda.includes(0)), "Values of exactly zero are not drawn."),
  ].join(" ");
}

const toned = (k) => `--tone: var(--c${k})`;

function readingsTable() {
  const head = ["quantity", ...chosen.map((i) => shortened(SITES[i], 40))].map((title, k) => {
    const key = element("span", { class: "key", style: toned(k - 1) }, element("bdi", {}, title));
    return element("th", { scope: "col" }, k > 0 ? key : title);
  });
  const cell = (row) => {
    if (!row) return element("td", {}, "–");
    const form = row.form && row.form !== "matrix" ? `, ${row.form}` : "";
    const how = element("span", { class: "hint" }, `${row.how}${form}`);
    const value = element("span", { class: "number" }, measured(row));
    return element("td", { title: told(row) }, value, " ", how);
  };
  const read = COLUMNS.filter((column) => chosen.some((i) => column.row(i)));
  const lines = read.map(({ name, spec }, k) => {
    const title = element("th", { scope: "row", title: spec.means }, name);
    return element("tr", {}, title, ...chosen.map((i) => cell(read[k].row(i))));
  });
  const top = element("thead", {}, element("tr", {}, ...head));
  return element("table", {}, top, element("tbody", {}, ...lines));
}

function opening(i) {
  return element("button", { type: "button", class: "link", "data-open": i }, named(SITES[i]));
}

// What was read of this matrix together with another.
function meetings(i) {
  return data.pairs.site.flatMap((site, k) => {
    if (!Array.isArray(site) || (site[0] !== i && site[2] !== i)) return [];
    const read = PAIRS.filter((column) => column.row(k));
    const numbers = read.map((column) => `${column.name} ${measured(column.row(k))}`);
    const [left, sign, right] = site;
    const parts = left === i ? [`this ${sign} `, opening(right)] : [opening(left), ` ${sign} this`];
    return [element("li", {}, ...parts, `: ${numbers.join(", ")}`)];
  });
}

function factsOf(i, k) {
  const missing = data.skipped.filter(([, , sites]) => sites.includes(i)).map(([what, why]) => {
    return element("li", {}, element("strong", {}, what), `: ${why}`);
  });
  const list = (title, items) =>
    items.length > 0 ? [element("h4", {}, title), element("ul", {}, ...items)] : [];
  const depth = DEPTH[i] < 0 ? "" : `, depth ${DEPTH[i]}`;
  const words = { "aria-label": `Remove ${SITES[i]}`, onclick: () => toggle(i) };
  const close = element("button", { type: "button", class: "link", ...words }, "remove");
  return element(
    "article",
    { class: "panel one", style: toned(k) },
    element("header", {}, element("h3", {}, named(SITES[i])), close),
    element("p", { class: "hint" }, `${word("says", i)}${depth}`),
    ...list("With others", meetings(i)),
    ...list("Not measured", missing),
  );
}

function drawSpectra() {
  const kept = known().length > 0;
  byId("nothing").hidden = chosen.length > 0;
  byId("one").hidden = chosen.length === 0;
  byId("pictures").hidden = !kept;
  byId("unkept").hidden = kept;
  if (kept) for (const chart of [ranks, bulk]) chart.draw();
}

function fillChosen() {
  byId("facts").replaceChildren(...chosen.map(factsOf));
  byId("numbers").replaceChildren(readingsTable());
  drawSpectra();
  drawCharts();
  table.drawRows();
}

// These matrices beside one another.
function showAll(places) {
  chosen.splice(0, chosen.length, ...places.slice(-MOST));
  fillChosen();
  byId("matrix").scrollIntoView();
}

// Open a matrix, alone or beside those that are open.
function show(i, beside = false) {
  showAll(beside ? [...chosen.filter((other) => other !== i), i] : [i]);
}

function toggle(i) {
  const place = chosen.indexOf(i);
  if (place >= 0) chosen.splice(place, 1);
  else chosen.push(i);
  if (chosen.length > MOST) chosen.shift();
  fillChosen();
}
