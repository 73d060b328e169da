// What was measured, as the rest of the page reads it.

const data = JSON.parse(byId("data").textContent);

const SITES = data.sites;

const rows = (() => {
  const numbers = new Numbers(data.readings, data.readings.site.length);
  const words = ["view", "form", "quantity", "how", "risk"].map((name) => [name, spread(data.readings[name])]);
  return data.readings.site.map((place, i) => {
    const [low, high] = numbers.ends(i);
    const row = { site: SITES[place], depth: data.depths[place], value: numbers.values[i], low, high };
    for (const [name, column] of words) row[name] = column[i];
    return row;
  });
})();

// Where each theorem was checked, and what came of it there.
const THEOREMS = data.theorems.map((t) => {
  const [measures, limits] = [t.measured, t.limit].map((packed) => new Numbers(packed, t.site.length));
  const columns = ["verdict", "sense", "assumptions"].map((name) => [name, spread(t[name])]);
  const at = (numbers, i) => {
    const [low, high] = numbers.ends(i);
    return Number.isNaN(numbers.values[i]) ? null : { value: numbers.values[i], low, high };
  };
  const checks = t.site.map((place, i) => ({
    site: SITES[place],
    depth: data.depths[place],
    measured: at(measures, i),
    limit: at(limits, i),
    ...Object.fromEntries(columns.map(([name, column]) => [name, column[i]])),
  }));
  return { ...t, checks, spoke: checks.filter((check) => !["vacuous", "inapplicable"].includes(check.verdict)) };
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
const placeOf = new Map(DEPTHS.map((depth, place) => [depth, place]));

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

// The curve of each quantity of a view in one form, in the order of depth; looked for once.
const seriesKnown = new Map();

function seriesOf(view, form) {
  const key = JSON.stringify([view, form]);
  if (!seriesKnown.has(key)) seriesKnown.set(key, gathered(view, form));
  return seriesKnown.get(key);
}

function gathered(view, form) {
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
  usual: true,
  relative: true,
  hidden: new Set(),
  depth: null,
  range: null, // of depth, that is looked at; null for all
};
