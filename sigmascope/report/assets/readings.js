// What a profile has read, as the rest of its page wants it.

const SITES = data.sites;
const LAYERS = data.layers; // those with readings, by depth

// Rows of columns: words that many share by name, numbers, and the place of their sites.
function rowsOf(columns, names, numbers) {
  const count = columns.site.length;
  const words = names.map((name) => [name, spread(columns[name], count)]);
  const sides = numbers.map((name) => [name, new Numbers(columns[name], count)]);
  return columns.site.map((place, i) => {
    const row = { site: SITES[place], depth: data.depths[place] };
    for (const [name, column] of words) row[name] = column[i];
    for (const [name, column] of sides) row[name] = column.row(i);
    return row;
  });
}

const rows = rowsOf(data.readings, ["view", "form", "quantity", "how", "risk"], []);
const estimates = new Numbers(data.readings.estimate, rows.length);
rows.forEach((row, i) => Object.assign(row, estimates.row(i)));

// Where each theorem was checked, and what came of it there.
const CHECKS = data.theorems.map((theorem) =>
  kept(() => rowsOf(theorem, ["verdict", "sense", "assumptions"], ["measured", "limit"])),
);

const state = {
  view: data.views[0]?.view,
  form: Object.fromEntries(data.views.map(({ view, forms }) => [view, forms[0].form])),
  log: true,
  bounds: true,
  usual: true,
  relative: true,
  hidden: new Set(), // lines of the curves
  depth: data.start,
  range: null, // of depth, that is looked at; null for all
};
