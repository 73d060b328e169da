// The matrices of a scan, what was read of them, a column for each quantity, their table, and a
// small chart for each kind of them.

const { site: SITES, depth: DEPTH, rows: TALL, cols: WIDE, kind: KIND } = data.matrices;
const COUNT = SITES.length;
const MOST = 4; // matrices that are compared
const CHARTS = 36; // drawn at first; the rest when asked for
const EVERY = SITES.map((_, i) => i);
const chosen = []; // places of the matrices that are shown, the newest last

// A column with how each reading was found.
function readColumn(spec, count) {
  const { values, row } = columnOf(spec, count);
  const { route } = spec;
  const routes = kept(() => typeof route !== "number" && placesIn(route, count));
  const found = (i) => {
    const [how, risk, form] = data.routes[routes() ? routes()[i] : route];
    const read = row(i);
    return read && { ...read, how, risk, form };
  };
  return { ...spec, values, row: found };
}

const COLUMNS = data.columns.map((spec) => readColumn(spec, COUNT));
const COLUMN = new Map(COLUMNS.map((column) => [column.name, column]));
const PAIRS = data.pairs.columns.map((spec) => readColumn(spec, data.pairs.site.length));

// A word that many matrices share, as their kind.
const word = (name, i) => data.matrices[name].words[data.matrices[name].at[i]];

// ---------------------------------------------------------------------------------------------
// Tables: of the matrices, and of pairs of them.

// The name, with a box to compare the matrix with others.
function compared(i) {
  const words = { "aria-label": "compare", title: `compare up to ${MOST}` };
  const onclick = (event) => {
    event.stopPropagation();
    toggle(i);
  };
  const box = element("input", { type: "checkbox", tabindex: "-1", ...words, onclick });
  box.checked = chosen.includes(i);
  return [box, element("bdi.name", { title: SITES[i] }, SITES[i])];
}

// A field of what was read, with the interval in a tooltip.
function readField({ name, means: says, unit, shown, values, row }) {
  const text = (i) => (row(i) ? compact(values()[i]) : "–");
  const tooltip = (i) => (row(i) ? told(row(i)) : "not measured");
  const how = { optional: true, down: true, shown, key: (i) => values()[i] };
  return { name, says, unit, width: "9rem", text, tooltip, ...how };
}

const site = { name: "site", title: "matrix", width: "var(--site)" };
const depth = (i) => (DEPTH[i] < 0 ? "" : String(DEPTH[i]));
const shape = (i) => `${TALL[i]} × ${WIDE[i]}`;
const wordField = (name) => ({ name, width: "6rem", text: (i) => word(name, i), optional: true });
const FIELDS = [
  { ...site, text: (i) => SITES[i], fill: compared },
  { name: "kind", width: "10.5rem", text: (i) => word("kind", i) },
  { name: "depth", width: "5.2rem", text: depth, key: (i) => DEPTH[i] },
  { name: "shape", width: "8rem", text: shape, key: (i) => TALL[i] * WIDE[i] },
  ...["dtype", "effort"].map(wordField),
  ...COLUMNS.map(readField),
];

const table = new Grid(byId("table"), {
  count: COUNT,
  fields: () => FIELDS.filter((field) => !field.optional || field.shown),
  open: (i) => show(i),
  mark: toggle,
  chosen: (i) => chosen.includes(i),
});

const searched = kept(() =>
  EVERY.map((i) => `${SITES[i]} ${word("kind", i)} ${word("dtype", i)}`.toLowerCase()),
);

function refresh() {
  const [holds, kind] = [search("filter"), byId("kind").value];
  const [from, to] = ["from", "to"].map((id) => byId(id).valueAsNumber);
  const passes = (i) =>
    (kind === "" || KIND.at[i] === Number(kind)) &&
    !(DEPTH[i] < from || DEPTH[i] > to) &&
    holds(searched()[i]);
  table.show(EVERY.filter(passes));
  const of = table.order.length === COUNT ? "" : ` of ${COUNT}`;
  byId("count").textContent = `${table.order.length}${of} ${COUNT === 1 ? "matrix" : "matrices"}`;
}

// What was read of two matrices together; a row opens both.
function fillPairs() {
  const sites = data.pairs.site; // a place, a sign and a place, or words
  const text = (i) => {
    const [left, sign, right] = sites[i];
    return Array.isArray(sites[i]) ? `${SITES[left]} ${sign} ${SITES[right]}` : sites[i];
  };
  const fill = (i) => [element("bdi.name", { title: text(i) }, text(i))];
  const between = { name: "site", title: "between", width: "24rem", grow: true, text, fill };
  const fields = [between, ...PAIRS.map(readField)];
  const open = (i) => Array.isArray(sites[i]) && showAll([sites[i][0], sites[i][2]]);
  const grid = new Grid(byId("pairs"), { count: sites.length, fields: () => fields, open });
  Object.assign(grid, { sort: fields[1], down: true }).show(sites.map((_, i) => i));
}

// ---------------------------------------------------------------------------------------------
// Over depth: a quantity, a dot for each matrix of a kind.

const NOTHING = { name: "nothing", values: () => [], row: () => null };
const quantityShown = () => COLUMN.get(byId("quantity").value) ?? NOTHING;

// By depth where the kind has one, and none left of it; else in the order of the checkpoint.
function makeChart(name, kind) {
  const own = EVERY.filter((i) => KIND.at[i] === kind);
  const list = own.sort((a, b) => DEPTH[a] - DEPTH[b] || a - b);
  const deep = list.some((i) => DEPTH[i] >= 0);
  const x = new Map(list.map((i, k) => [i, deep ? DEPTH[i] : k]));
  const words = (t) => (t === -1 ? "none" : t >= 0 && Number.isInteger(t) ? String(t) : "");
  const axis = { ...around(...extent(x.values()), 0.02, 0.5), words: deep ? words : () => "" };
  const canvas = element("canvas", { tabindex: "0", role: "img" });
  const note = element("p.hint");
  const open = ({ mark, i }, beside) => show(mark.list[i], beside);
  new Chart(canvas, { open }, () => {
    const [{ name: quantity, values, row }, log] = [quantityShown(), checked("log")];
    const dots = (some, looks) => {
      const [at, y] = [some.map((i) => x.get(i)), some.map((i) => values()[i])];
      return { kind: "line", joined: false, list: some, x: at, y, ...looks };
    };
    const read = list.filter((i) => Number.isFinite(values()[i]));
    const drawn = read.filter((i) => !log || values()[i] > 0);
    const says = (k) => [shortened(SITES[drawn[k]], 44), measured(row(drawn[k]))];
    const size = drawn.length > 300 ? { radius: 1.6, alpha: 0.6 } : { radius: 2.8, alpha: 0.9 };
    const rings = chosen.map((i, k) => {
      const looks = { colour: tone(k), shape: RING, radius: 6.5 };
      return dots(drawn.filter((other) => other === i), looks);
    });
    const summary = `${quantity} of ${name} over depth, ${plural(drawn.length, "dot")}`;
    canvas.setAttribute("aria-label", `${summary}; arrow keys walk, Enter opens`);
    const less = read.length - drawn.length;
    note.textContent = less > 0 ? `${less} not above zero` : "";
    const y = checked("same") ? ends(Array.from(values()), log) : { log };
    const marks = [dots(drawn, { ...size, colour: ink("--accent"), says }), ...rings];
    return { x: axis, y, marks, empty: "none read" };
  });
  const count = element("span.hint", {}, ` ${list.length}`);
  const title = element("h3", { title: name }, shortened(name, 40), count);
  return element("figure.panel small", {}, title, canvas, note);
}

function makeCharts(most) {
  byId("charts").replaceChildren(...KIND.words.slice(0, most).map(makeChart));
  byId("all").hidden = KIND.words.length <= most;
}

function chooseQuantity() {
  const { scale: usual, means } = quantityShown();
  byId("log").checked = usual === "log";
  byId("means").textContent = means ?? "";
  redraw();
}
