// What was measured, as the rest of the page reads it.

const data = JSON.parse(byId("data").textContent);

const rows = data.readings.site.map((site, i) => {
  const row = { site };
  for (const name of ["depth", "view", "form", "quantity", "how", "risk"]) {
    row[name] = data.readings[name][i];
  }
  for (const name of ["value", "low", "high"]) row[name] = number(data.readings[name][i]);
  return row;
});

const VIEWS = data.views.filter((view) =>
  rows.some((row) => row.view === view)
);

// Views that hold something of a layer; readings of the model as a whole have no curves.
const DRAWN = VIEWS.filter((view) => rows.some((row) => row.view === view && row.depth !== null));

// Quantities in one unit share a plot; each other quantity has its own.
const FAMILIES = data.families;

const byDepth = new Map();
for (const row of rows) {
  if (row.depth === null) continue;
  if (!byDepth.has(row.depth)) byDepth.set(row.depth, []);
  byDepth.get(row.depth).push(row);
}
const DEPTHS = [...byDepth.keys()].sort((a, b) => a - b);

const layerAt = new Map(data.layers.map((layer) => [layer.depth, layer]));

function siteAt(depth) {
  const layer = layerAt.get(depth);
  if (layer) return layer.site;
  const row = (byDepth.get(depth) || [])[0];
  return row ? row.site : "";
}

// What has one form only goes with every form: a linear layer's matrix beside the operators of
// convolutions, and what is no matrix at all.
const COMMON = ["", "matrix"];

function formsOf(view) {
  const forms = [...new Set(rows.filter((row) => row.view === view).map((row) => row.form))];
  const own = forms.filter((form) => !COMMON.includes(form));
  const first = (form) => (["samples", "operator"].includes(form) ? 0 : 1);
  return own.length > 0 ? own.sort((a, b) => first(a) - first(b)) : forms.slice(0, 1);
}

// The curve of each quantity of a view in one form, in the order of depth.
function seriesOf(view, form) {
  const found = new Map();
  for (const row of rows) {
    if (row.view !== view || row.depth === null) continue;
    if (row.form !== form && !COMMON.includes(row.form)) continue;
    if (!found.has(row.quantity)) found.set(row.quantity, []);
    found.get(row.quantity).push(row);
  }
  for (const points of found.values()) points.sort((a, b) => a.depth - b.depth);
  return found;
}

// The series grouped into panels: families first, then the rest one by one.
function panelsOf(series) {
  const panels = [];
  const left = new Set(series.keys());
  for (const family of FAMILIES) {
    const here = family.quantities.filter((quantity) => left.has(quantity));
    if (here.length < 2) continue;
    here.forEach((quantity) => left.delete(quantity));
    panels.push({ title: family.title, quantities: here });
  }
  for (const quantity of left) panels.push({ title: titled(quantity), quantities: [quantity] });
  return panels;
}

const state = {
  view: DRAWN[0],
  form: Object.fromEntries(VIEWS.map((view) => [view, formsOf(view)[0]])),
  log: true,
  bounds: true,
  relative: true,
  hidden: new Set(),
  depth: null,
};
