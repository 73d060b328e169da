// The page of a profile: one layer, tables, and what the controls do.

// ---------------------------------------------------------------------------------------------
// One layer: its singular values and its readings.

let spectra = []; // of the layer, unpacked
const indices = new Sight(() => around(1, Math.max(2, ...spectra.map((s) => s.count)), 0.02, 0.3));

new Chart(byId("spectrum"), { sight: indices }, () => {
  const relative = checked("relative");
  const marks = spectra.map((one, index) => {
    const y = one.sigma.map((value) => value / (relative ? one.sigma[0] : 1));
    return spectrumMark(one, { colour: tone(index), shape: index % INKS, y });
  });
  const keys = spectra.map(({ title }, index) => keyOf(title, `var(--c${index % INKS})`));
  const title = relative ? "singular value / largest" : "singular value";
  // below 1e-18 of the largest there is rounding only: it would flatten the rest
  const y = { log: "auto", floor: 1e-18, title };
  return { x: { whole: true, title: "index" }, y, marks, keys };
});

const SPECTRA = rowsOf(data.spectra);

function spectraOf(layer) {
  return layer.spectra.map((i) => {
    const { site, what, size, count, values } = SPECTRA[i];
    const title = `${shortened(site, 40)}, ${what}`;
    return { title, note: `${what}: ${size}`, ...valuesOf(values, count) };
  });
}

// A layer, and what was read there, under a title for each site, view and form.
function choose(depth) {
  const at = LAYERS.findIndex((layer) => layer.depth === depth);
  state.depth = depth;
  byId("site").selectedIndex = at;
  each("disabled", { previous: at <= 0, next: at >= LAYERS.length - 1 });
  if (at < 0) return;
  spectra = spectraOf(LAYERS[at]);
  indices.range = null;
  const notes = spectra.map(({ note }) => note).join(" · ");
  byId("spectrum-note").textContent = notes || "No spectrum was kept for this layer.";
  const title = (row) => [row.site, row.view, row.form].filter(Boolean).join(" · ");
  const lines = rows.filter((row) => row.depth === depth).flatMap((row, i, all) => {
    const how = [row.how, chance(row.risk)].filter(Boolean).join("; ");
    const value = element("td.n", { title: how }, measured(row));
    const line = element("tr", {}, element("td", {}, row.quantity), value);
    if (i > 0 && title(row) === title(all[i - 1])) return [line];
    return [element("tr.group", {}, element("td", { colspan: "2" }, title(row))), line];
  });
  byId("here").replaceChildren(element("tbody", {}, ...lines));
  redraw();
}

// ---------------------------------------------------------------------------------------------
// Tables of the readings, and of the checks of each theorem. Rows lead to their layer.

function gridOf(root, list, fields) {
  const open = ({ depth }) => {
    if (depth === null) return;
    choose(depth);
    byId("layer").scrollIntoView();
  };
  const looks = ({ depth }) => (depth === null ? "bdi.still name" : "bdi.name");
  const fill = (row) => [element(looks(row), {}, row.site)];
  const site = { name: "site", width: "min(var(--site), 13rem)", grow: true, fill };
  return new Grid(root, { rows: list, fields: [site, ...fields], open });
}

const by = (name) => ({ key: (row) => row[name] });
const odds = ({ risk }) => (risk ? compact(risk, 2) : "");
const table = gridOf(byId("rows"), rows, [
  { name: "depth", width: "5rem", text: ({ depth }) => depth ?? "", ...by("depth") },
  { name: "view", width: "8.5rem" },
  { name: "form", width: "6rem" },
  { name: "quantity", width: "13rem" },
  { name: "value", width: "6rem", text: (r) => compact(r.value), tooltip: told, ...by("value") },
  { name: "interval", width: "9.5rem", text: interval, ...by("low") },
  { name: "how", width: "9rem", grow: true },
  { name: "risk", width: "4rem", text: odds, ...by("risk") },
]);

function refresh() {
  const [holds, view] = [search("filter"), byId("only").value];
  const words = (row) => (row.words ??= `${row.site} ${row.quantity} ${row.form}`.toLowerCase());
  table.show((row) => (!view || row.view === view) && holds(words(row)));
  byId("count").textContent = plural(table.order.length, "reading");
}

// The table of a theorem is made when it is opened.
document.addEventListener("toggle", ({ target }) => {
  const root = target.querySelector?.("[data-theorem]:empty");
  if (!root) return;
  // a theorem that does not apply was asked for no number
  const sides = ({ measured: left, limit, sense }) =>
    left && limit ? `${measured(left)} ${sense} ${measured(limit)}` : "";
  const value = ({ measured: left }) => left?.value;
  const verdict = ({ verdict: word }) => [element("span", { class: `verdict ${word}` }, word)];
  gridOf(root, CHECKS[root.dataset.theorem](), [
    { name: "measured", width: "22rem", title: "measured and limit", text: sides, key: value },
    { name: "verdict", width: "8rem", fill: verdict },
    { name: "assumptions", width: "28rem" },
  ]).show();
}, true);

// ---------------------------------------------------------------------------------------------

// Where the evidence of a finding can be seen.
pressed("finding", (number) => {
  const { shows, at } = data.findings[number];
  if (shows) {
    const [view, form, quantity] = shows;
    hidden.delete(`${view}|${quantity}`);
    show(view, formsOf(view).some((one) => one.form === form) ? form : undefined);
  }
  choose(at ?? state.depth);
  const panel = shows && panels.find(({ quantities }) => quantities.includes(shows[2]));
  if (!panel) return byId("curves").scrollIntoView();
  panel.figure.classList.add("found");
  panel.figure.focus({ preventScroll: true });
  panel.figure.scrollIntoView({ block: "center" });
});
pressed("view", (view) => show(view));
pressed("by", (by) => choose(LAYERS[byId("site").selectedIndex + Number(by)].depth));
listen("change", ["form"], ({ target }) => show(state.view, target.value));
listen("change", ["site"], ({ target }) => choose(LAYERS[target.selectedIndex].depth));
listen("input", ["filter", "only"], refresh);
if (data.views.length > 0) show(data.views[0].view);
choose(state.depth);
refresh();
follow();
