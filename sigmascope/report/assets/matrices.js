// The matrices of a scan, what was read of them, a column for each quantity, and their table.

const { site: SITES, depth: DEPTH, rows: TALL, cols: WIDE } = data.matrices;
const COUNT = SITES.length;
const MOST = 4; // matrices that are compared
const chosen = []; // places of the matrices that are shown, the newest last

class Column extends Numbers {
  constructor(spec, count) {
    super(spec, count);
    Object.assign(this, { spec, name: spec.name });
  }

  // One reading with how it was found; null where there is none.
  row(i) {
    const read = super.row(i);
    if (!read) return null;
    const { route } = this.spec;
    if (typeof route !== "number") this.routes ||= placesIn(route, this.count);
    const [how, risk, form] = data.routes[this.routes?.[i] ?? route];
    return { ...read, how, risk, form };
  }
}

const COLUMNS = data.columns.map((spec) => new Column(spec, COUNT));
const COLUMN = new Map(COLUMNS.map((column) => [column.name, column]));
const PAIRS = data.pairs.columns.map((spec) => new Column(spec, data.pairs.site.length));

// A word that many matrices share, as their kind.
function word(name, i) {
  const { words, at } = data.matrices[name];
  return words[at[i]];
}

const shape = (i) => `${TALL[i]} × ${WIDE[i]}`;

// The name, with a box to compare the matrix with others.
function compared(i) {
  const words = { "aria-label": "compare", title: `compare up to ${MOST}` };
  const box = element("input", { type: "checkbox", tabindex: "-1", ...words });
  box.checked = chosen.includes(i);
  box.addEventListener("click", (event) => {
    event.stopPropagation();
    toggle(i);
  });
  return [box, element("bdi", { class: "name", title: SITES[i] }, SITES[i])];
}

function wordField(name, width, text = (i) => word(name, i), more = {}) {
  return { name, width, text, keys: kept(() => ranksOf(SITES.map((_, i) => text(i)))), ...more };
}

// A field of what was read, with the interval in a tooltip.
function readField(column) {
  const text = (i) => (column.row(i) ? compact(column.values[i]) : "–");
  const tooltip = (i) => (column.row(i) ? told(column.row(i)) : "not measured");
  const { name, means: says, unit, shown } = column.spec;
  const how = { numeric: true, optional: true, down: true, shown };
  return { name, says, unit, width: "9rem", text, tooltip, keys: () => column.values, ...how };
}

const FIELDS = [
  wordField("site", "var(--site)", (i) => SITES[i], { title: "matrix", fill: compared }),
  wordField("kind", "10.5rem"),
  wordField("depth", "5.2rem", (i) => (DEPTH[i] < 0 ? "" : String(DEPTH[i])), {
    numeric: true,
    keys: () => DEPTH,
  }),
  wordField("shape", "8rem", shape, {
    numeric: true,
    keys: kept(() => TALL.map((rows, i) => rows * WIDE[i])),
  }),
  ...["dtype", "effort"].map((name) => wordField(name, "6rem", undefined, { optional: true })),
  ...COLUMNS.map(readField),
];

const table = new Grid(byId("table"), {
  fields: () => FIELDS.filter((field) => !field.optional || field.shown),
  open: (i) => show(i),
  mark: (i) => toggle(i),
  chosen: (i) => chosen.includes(i),
});

const searched = SITES.map((site, i) => {
  return `${site} ${word("kind", i)} ${word("dtype", i)}`.toLowerCase();
});

function refresh() {
  const [holds, kind] = [search("filter"), byId("kind").value];
  const [from, to] = ["from", "to"].map((id) => byId(id).valueAsNumber);
  const passes = (text, i) =>
    (kind === "" || data.matrices.kind.at[i] === Number(kind)) &&
    !(DEPTH[i] < from || DEPTH[i] > to) &&
    holds(text);
  table.show(searched.flatMap((text, i) => (passes(text, i) ? [i] : [])));
  const of = table.order.length === COUNT ? "" : ` of ${COUNT}`;
  byId("count").textContent = `${table.order.length}${of} ${COUNT === 1 ? "matrix" : "matrices"}`;
}

// What was read of two matrices together; a row opens both.
function fillPairs() {
  const sites = data.pairs.site;
  const known = (i) => Array.isArray(sites[i]);
  const text = (i) => {
    const [left, sign, right] = sites[i];
    return known(i) ? `${SITES[left]} ${sign} ${SITES[right]}` : sites[i];
  };
  const fill = (i) => [element("bdi", { class: "name", title: text(i) }, text(i))];
  const keys = kept(() => ranksOf(sites.map((_, i) => text(i))));
  const site = { name: "site", title: "between", width: "24rem", grow: true, fill, keys };
  const fields = [site, ...PAIRS.map(readField)];
  const open = (i) => known(i) && showAll([sites[i][0], sites[i][2]]);
  const grid = new Grid(byId("pairs"), { fields: () => fields, open });
  Object.assign(grid, { sort: fields[1], down: true }).show(sites.map((_, i) => i));
}
