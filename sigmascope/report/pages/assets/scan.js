// The head of the page of a scan, findings, what is missing, and the order in which all is drawn.

function fillHead() {
  const parameters = data.matrices.rows.reduce((sum, rows, i) => sum + rows * data.matrices.cols[i], 0);
  const left = data.left.reduce((sum, [, , sites]) => sum + sites.length, 0);
  byId("source").textContent = shown(data.source);
  const words = left > 0 ? `; ${left} left out` : "";
  byId("coverage").textContent = `${plural(data.tensors, "tensor")}${words}. ${data.headline || "No findings."}`;
  const tiles = severityTiles();
  tiles.push(tile(COUNT === 1 ? "matrix" : "matrices", COUNT.toLocaleString("en"), ""));
  tiles.push(tile("parameters", compact(parameters), ""), tile("read", bytesize(data.bytes), ""));
  const seconds = Number(data.about.seconds);
  if (data.about.seconds && Number.isFinite(seconds)) {
    tiles.push(tile(seconds < 90 ? "seconds" : "minutes", compact(seconds < 90 ? seconds : seconds / 60, 3), ""));
  }
  byId("tiles").replaceChildren(...tiles);
}

function meant(quantity) {
  const known = COLUMN.get(quantity) || PAIRS.find((column) => column.name === quantity);
  return known && meaning(known.spec);
}

// Open what a finding is of, with the quantity that shows it drawn over depth.
function locate(finding) {
  const first = finding.evidence.find((r) => COLUMN.has(r.quantity));
  if (first) {
    byId("quantity").value = first.quantity;
    byId("quantity").dispatchEvent(new Event("change"));
  }
  chosen.length = 0;
  chosen.push(...finding.matrices.slice(0, MOST));
  fillChosen();
  byId("matrix").scrollIntoView();
}

function way(finding) {
  if (finding.matrices.length === 0) return null;
  const words = finding.matrices.length > 1 ? `Show the ${finding.matrices.length > MOST ? `first ${MOST} ` : ""}matrices` : "Show the matrix";
  return element("button", { type: "button", class: "button", onclick: () => locate(finding) }, words);
}

function fillUnusual() {
  const lines = data.outliers.map(([i, quantity, value, usual, far]) => {
    const open = element("button", { type: "button", class: "link", onclick: () => show(i) }, named(SITES[i]));
    const cells = [compact(number(value), 3), compact(number(usual), 3), `${far > 0 ? "+" : "−"}${compact(Math.abs(far), 3)}`];
    return element("tr", {}, element("td", {}, open), element("td", {}, quantity), ...cells.map((c) => element("td", { class: "n" }, c)));
  });
  byId("unusual").hidden = lines.length === 0;
  byId("outliers").append(element("tbody", {}, ...lines));
}

const LISTED = 100; // pairs in the document

// Two matrices that meet or are alike, each of which can be opened; another site as it is.
function between(site) {
  if (!Array.isArray(site)) return [named(site)];
  const open = (i, beside) => element("button", { type: "button", class: "link", onclick: () => show(i, beside) }, named(SITES[i]));
  return [open(site[0], false), ` ${site[1]} `, open(site[2], true)];
}

function drawPairs() {
  const column = PAIRS.find((each) => each.name === byId("pairs").value);
  const sign = byId("least").checked ? 1 : -1;
  const known = data.pairs.site.map((_, k) => k).filter((k) => !Number.isNaN(column.values[k]));
  known.sort((a, b) => sign * (column.values[a] - column.values[b]) || a - b);
  const lines = known.slice(0, LISTED).map((k) => {
    const row = column.row(k);
    return element("tr", {}, element("td", {}, ...between(data.pairs.site[k])), element("td", { class: "n", title: told(row) }, measured(row)));
  });
  byId("met").replaceChildren(...lines);
  byId("meet").textContent = lines.length < known.length ? `${lines.length} of ${known.length}` : String(known.length);
  byId("pairmeans").textContent = meaning(column.spec);
}

function fillPairs() {
  const none = PAIRS.length === 0;
  byId("between").hidden = none;
  document.querySelector("a[href='#between']").hidden = none;
  if (none) return;
  byId("pairs").replaceChildren(...PAIRS.map((column) => element("option", { value: column.name }, column.name)));
  for (const id of ["pairs", "least"]) byId(id).addEventListener("change", drawPairs);
  drawPairs();
}

function fillRest() {
  reasons("left", data.left, SITES, "No tensor was left out.");
  reasons("skipped", data.skipped, SITES, "Everything that was to be measured was.");
  const entries = (rows) => rows.flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)]);
  const about = Object.entries(data.about).map(([key, value]) => [titled(shown(key)), shown(value)]);
  byId("words").replaceChildren(element("dl", { class: "facts" }, ...entries(about)));
  const known = [...COLUMNS, ...PAIRS].map((column) => [column.name, meaning(column.spec)]);
  byId("meanings").replaceChildren(element("dl", { class: "facts" }, ...entries(known)));
}

fillHead();
byId("cards").replaceChildren(...cardsOr("No findings."));
fillUnusual();
fillCharts();
fillTable();
fillPairs();
fillRest();
byId("loglambda").addEventListener("change", drawSpectra);
const start = data.findings.find((finding) => finding.matrices.length > 0);
if (COUNT > 0) chosen.push(start ? start.matrices[0] : data.outliers.length > 0 ? data.outliers[0][0] : 0);
const redraw = () => {
  drawCharts();
  drawSpectra();
};
if (COUNT > 0) fillChosen();
follow(redraw);
new ResizeObserver(once(redraw)).observe(document.querySelector("main"));
document.documentElement.dataset.ready = String(Math.round(performance.now()));
