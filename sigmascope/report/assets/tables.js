// Tables of a profile: its readings, and the checks of each theorem.

// A field of rows with a text in it, or a number to sort by.
function field(list, name, width, more = {}) {
  const { text = (i) => String(list[i][name] ?? ""), key = (row) => row[name] } = more;
  const numbers = () => Float64Array.from(list, (row) => key(row) ?? NaN);
  const words = () => ranksOf(list.map((_, i) => text(i)));
  return { name, width, text, keys: kept(more.numeric ? numbers : words), ...more };
}

function siteField(list, title) {
  const looks = (i) => (list[i].depth === null ? "still name" : "name");
  const fill = (i) => [element("bdi", { class: looks(i) }, list[i].site)];
  const more = { title, grow: true, fill, tooltip: (i) => list[i].site };
  return field(list, "site", "min(var(--site), 13rem)", more);
}

// Rows lead to their layer.
function gridOf(root, list, fields) {
  const open = (i) => {
    if (list[i].depth === null) return;
    choose(list[i].depth);
    byId("layer").scrollIntoView();
  };
  return new Grid(root, { fields: () => [siteField(list), ...fields], open });
}

const numeric = true;
const table = gridOf(byId("rows"), rows, [
  field(rows, "depth", "5rem", { numeric }),
  field(rows, "view", "8.5rem"),
  field(rows, "form", "6rem"),
  field(rows, "quantity", "13rem"),
  field(rows, "value", "6rem", {
    numeric,
    text: (i) => compact(rows[i].value),
    tooltip: (i) => told(rows[i]),
  }),
  field(rows, "interval", "9.5rem", {
    numeric,
    text: (i) => interval(rows[i]),
    key: (row) => row.low,
  }),
  field(rows, "how", "9rem", { grow: true }),
  field(rows, "risk", "4rem", {
    numeric,
    text: (i) => (rows[i].risk ? compact(rows[i].risk, 2) : ""),
  }),
]);
const searched = kept(() =>
  rows.map((row) => `${row.site} ${row.quantity} ${row.form}`.toLowerCase()),
);

function refresh() {
  const [holds, view] = [search("filter"), byId("only").value];
  const passes = (row, i) => (!view || row.view === view) && holds(searched()[i]);
  table.show(rows.flatMap((row, i) => (passes(row, i) ? [i] : [])));
  byId("count").textContent = plural(table.order.length, "reading");
}

// The table of a theorem is made when it is opened.
function fillTheorem({ target }) {
  const root = target.querySelector?.("[data-theorem]:empty");
  if (!root) return;
  const checks = CHECKS[root.dataset.theorem]();
  // a theorem that does not apply was asked for no number
  const sides = (i) => {
    const { measured: left, limit, sense } = checks[i];
    return left && limit ? `${measured(left)} ${sense} ${measured(limit)}` : "";
  };
  const verdict = (i) => {
    return [element("span", { class: `verdict ${checks[i].verdict}` }, checks[i].verdict)];
  };
  const key = (check) => check.measured?.value;
  const title = "measured and limit";
  const grid = gridOf(root, checks, [
    field(checks, "measured", "22rem", { title, text: sides, numeric, key }),
    field(checks, "verdict", "8rem", { fill: verdict }),
    field(checks, "assumptions", "28rem"),
  ]);
  grid.show(checks.map((_, i) => i));
}
