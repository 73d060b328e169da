// The matrices that were chosen: their spectra, their readings, what was not measured of them.

const BINS = 48;

// Density of λ = σ²/n by the law of Marchenko and Pastur: entries of spread s, sides in ratio q.
function marchenkoPastur(s, q) {
  const [low, high] = [-1, 1].map((sign) => s * s * (1 + sign * Math.sqrt(q)) ** 2);
  const inside = (x) => Math.sqrt((high - x) * (x - low)) / (2 * Math.PI * q * s * s * x);
  return { low, high, at: (x) => (x <= low || x >= high ? 0 : inside(x)) };
}

// Singular values of one matrix with their ranks; null where none were kept. Of the squares
// λ = σ²/n, n the longer side, the law of noise as it was read.
function spectrumOf(i) {
  if (!data.spectra[i]) return null;
  const [count, text, rows = TALL[i], cols = WIDE[i]] = data.spectra[i];
  const values = valuesOf(text, count);
  const [m, n] = [rows, cols].sort((a, b) => a - b);
  const read = (name) => COLUMN.get(name)?.row(i)?.value;
  const [noise, sigmaEdge, spikes = 0] = ["noise level", "noise edge", "spikes"].map(read);
  const law = noise > 0 ? marchenkoPastur(noise, m / n) : null;
  const squares = { lambda: values.sigma.map((s) => (s * s) / n), law, total: m };
  const edge = sigmaEdge && sigmaEdge ** 2 / n;
  const edges = { sigmaEdge, edge, spikes: Math.round(spikes) };
  return { title: shortened(SITES[i], 44), ...values, rows, cols, ...squares, ...edges };
}

// What was chosen and has a spectrum, with the colour of its place.
function known() {
  const all = chosen.map((i, k) => ({ colour: tone(k), ...spectrumOf(i) }));
  return all.filter(({ sigma }) => sigma);
}

new Chart(byId("ranks"), {}, () => {
  const all = known();
  const marks = all.flatMap((one) => {
    const { colour, rank, sigma, sigmaEdge = NaN, spikes } = one;
    const first = rank.filter((r) => r <= spikes).length;
    const out = { x: rank.slice(0, first), y: sigma.slice(0, first), joined: false };
    const edge = { x: [0.9, 1e9], y: [sigmaEdge, sigmaEdge], dots: false, dash: [5, 4], width: 1 };
    return [
      spectrumMark(one, { dots: false, colour }),
      { kind: "line", ...edge, colour },
      { kind: "line", ...out, colour },
    ];
  });
  const x = rankAxis(Math.max(2, ...all.map(({ count }) => count)));
  return { x, y: { log: true, title: "singular value" }, marks };
});

// Shares of the spectrum per bin; between two values that were kept, others are spread evenly.
function shares({ lambda, total, rank }, edges, by) {
  const share = (low, high, at) => Math.min(Math.max((at - low) / (high - low) || 0, 0), 1);
  const below = edges.map((edge) => {
    const each = lambda.map((x, k) => {
      const others = lambda[k + 1] > 0 ? rank[k + 1] - rank[k] - 1 : 0;
      const own = x > 0 && x < edge ? 1 : 0;
      return own + (others && others * share(by(lambda[k + 1]), by(x), by(edge)));
    });
    return each.reduce((sum, more) => sum + more, 0) / total;
  });
  return below.slice(1).map((mass, k) => mass - below[k]);
}

// The distribution of λ: all of it in logarithms; else the bulk, with a little beyond the noise
// edge. Laws are without the mass of the spikes, per λ or per logarithm of λ.
new Chart(byId("bulk"), {}, () => {
  const all = known().filter(({ lambda }) => lambda.some((x) => x > 0));
  if (all.length === 0) return { x: { low: 0, high: 1 }, y: { low: 0, high: 1 }, marks: [] };
  const log = checked("loglambda");
  const [least, most] = extent(all.flatMap(({ lambda }) => lambda.filter((x) => x > 0)));
  const bulk = all.map(({ edge, law }) => Math.max(edge || 0, law?.high || 0) * 1.35 || most);
  const low = log ? Math.max(least, most * 1e-9) / 1.3 : 0;
  const high = log ? most * 1.6 : Math.min(most * 1.05, Math.max(...bulk));
  const place = scale({ low, high, log }, 0, BINS);
  const edges = Array.from({ length: BINS + 1 }, (_, k) => place.back(k));
  const corners = edges.flatMap((edge) => [edge, edge]).slice(1, -1);
  const by = log ? Math.log : (v) => v;
  const step = (by(high) - by(low)) / BINS;
  const bars = all.map((one) => shares(one, edges, by).flatMap((m) => [m / step, m / step]));
  const laws = all.map(({ law, spikes, total }) => {
    if (!law) return { x: [], y: [] };
    const [from, to] = [Math.max(law.low, low, high * 1e-9), Math.min(law.high, high)];
    const at = (t) => (log ? from * (to / from) ** t : from + (to - from) * t ** 2);
    const x = Array.from({ length: 241 }, (_, k) => at(k / 240));
    const rest = 1 - Math.min(spikes, total) / total;
    return { x, y: x.map((v) => law.at(v) * rest * (log ? v : 1)) };
  });
  // the law has a pole at zero for square matrices: the axis ends a little above the bars
  const [tall, taller] = [bars.flat(), laws.flatMap(({ y }) => y)].map((y) => extent(y)[1]);
  const top = Math.min(1.4 * tall, Math.max(tall, taller));
  const marks = all.flatMap(({ colour, edge, spikes, lambda, rank }, k) => {
    const out = lambda.filter((v, at) => rank[at] <= spikes && v > 0).reverse();
    const zeros = (list) => list.map(() => 0);
    const down = { joined: false, shape: DOWN, radius: 4 };
    return [
      { kind: "band", x: corners, low: zeros(corners), high: bars[k], colour, alpha: 0.28 },
      { kind: "line", ...laws[k], colour, dots: false },
      { kind: "uprights", x: edge ? [edge] : [], colour, dash: [5, 4], width: 1.25 },
      { kind: "line", x: out, y: zeros(out), colour, ...down },
    ];
  });
  byId("beyond").textContent = beyond(all, high);
  const x = { low, high, log, title: "λ = σ² / longer side" };
  const title = log ? "share per unit of ln λ" : "density";
  return { x, y: { low: 0, high: 1.08 * top || 1, title }, marks };
});

// What the distribution does not show.
function beyond(all, high) {
  const last = all.map(({ lambda, rank }) => rank[lambda.filter((x) => x > high).length - 1] ?? 0);
  const out = last.reduce((a, b) => a + b, 0);
  const words = [
    out > 0 && `${out === 1 ? "One value lies" : `${out} values lie`} beyond the right end.`,
    all.some((s) => s.count < s.total) && "Only the largest values of some were computed.",
    all.some((s) => s.lambda.includes(0)) && "Values of exactly zero are not drawn.",
  ];
  return words.filter(Boolean).join(" ");
}

function readingsTable() {
  const key = (i, k) => element("span.key", toned(k), element("bdi", {}, shortened(SITES[i], 40)));
  const titles = ["quantity", ...chosen.map(key)];
  const heads = titles.map((title) => element("th", { scope: "col" }, title));
  const cell = (row) => {
    if (!row) return element("td", {}, "–");
    const form = row.form && row.form !== "matrix" ? `, ${row.form}` : "";
    const how = element("span.hint", {}, `${row.how}${form}`);
    return element("td", { title: told(row) }, element("span.number", {}, measured(row)), " ", how);
  };
  const read = COLUMNS.filter(({ row }) => chosen.some(row));
  const lines = read.map(({ name, means, row }) => {
    const title = element("th", { scope: "row", title: means }, name);
    return element("tr", {}, title, ...chosen.map((i) => cell(row(i))));
  });
  const top = element("thead", {}, element("tr", {}, ...heads));
  return element("table", {}, top, element("tbody", {}, ...lines));
}

// A matrix, what was read of it together with others, and what was not measured of it.
function factsOf(i, k) {
  const opening = (j) => {
    return element("button.link", { type: "button", "data-open": j }, named(SITES[j]));
  };
  const met = data.pairs.site.flatMap((site, at) => {
    if (!Array.isArray(site) || (site[0] !== i && site[2] !== i)) return [];
    const read = PAIRS.filter(({ row }) => row(at));
    const numbers = read.map(({ name, row }) => `${name} ${measured(row(at))}`).join(", ");
    const [left, sign, right] = site;
    const both = left === i ? [`this ${sign} `, opening(right)] : [opening(left), ` ${sign} this`];
    return [element("li", {}, ...both, `: ${numbers}`)];
  });
  const missing = data.skipped.filter(([, , sites]) => sites.includes(i)).map(([what, why]) => {
    return element("li", {}, element("strong", {}, what), `: ${why}`);
  });
  const list = (title, items) =>
    items.length > 0 ? [element("h4", {}, title), element("ul", {}, ...items)] : [];
  const words = { "aria-label": `Remove ${SITES[i]}`, onclick: () => toggle(i) };
  const close = element("button.link", { type: "button", ...words }, "remove");
  return element(
    "article.panel one",
    toned(k),
    element("header", {}, element("h3", {}, named(SITES[i])), close),
    element("p.hint", {}, `${inWords(i)}${DEPTH[i] < 0 ? "" : `, depth ${DEPTH[i]}`}`),
    ...list("With others", met),
    ...list("Not measured", missing),
  );
}

// Look at these matrices beside one another, the newest last.
function choose(places) {
  chosen = places.slice(-MOST);
  byId("facts").replaceChildren(...chosen.map(factsOf));
  byId("numbers").replaceChildren(readingsTable());
  const [some, drawn] = [chosen.length > 0, known().length > 0];
  each("hidden", { nothing: some, one: !some, unkept: drawn, pictures: !drawn });
  table.drawRows();
  redraw();
}

const others = (i) => chosen.filter((other) => other !== i);

function toggle(i) {
  choose(chosen.includes(i) ? others(i) : [...chosen, i]);
}

function showAll(places) {
  choose(places);
  byId("matrix").scrollIntoView();
}

// Open a matrix, alone or beside those that are open.
function show(i, beside = false) {
  showAll(beside ? [...others(i), i] : [i]);
}
