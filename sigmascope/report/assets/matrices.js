// The matrices of a scan, what was read of them, a column for each quantity, their table, and a
// small chart for each kind of them.

const { site: SITES, depth: DEPTH, rows: TALL, cols: WIDE } = data.matrices;
const COUNT = SITES.length;
const MOST = 4; // matrices that are compared
const CHARTS = 36; // drawn at first; the rest when asked for
const EVERY = SITES.map((_, i) => i);
const WORDS = ["kind", "dtype", "effort", "says"].map((name) => data.matrices[name]);
const [kind, dtype, effort, inWords] = WORDS.map((column) => wordsOf(column, COUNT));
let chosen = []; // places of the matrices that are shown, the newest last

// A column with how each reading was found.
function readColumn(spec, count) {
  const { values, row } = columnOf(spec, count);
  const route = wordsOf(spec.route, count);
  const found = (i) => {
    const [[how, risk, form], read] = [route(i), row(i)];
    return read && { ...read, how, risk, form };
  };
  return { ...spec, values, row: found };
}

const COLUMNS = data.columns.map((spec) => readColumn(spec, COUNT));
const COLUMN = new Map(COLUMNS.map((column) => [column.name, column]));
const PAIRS = data.pairs.columns.map((spec) => readColumn(spec, data.pairs.site.length));

// ---------------------------------------------------------------------------------------------
// Tables: of the matrices, and of pairs of them.

// The name, with a box to compare the matrix with others.
function compared(i) {
  const words = { "aria-label": "compare", title: `compare up to ${MOST}` };
  const box = element("input", { type: "checkbox", tabindex: "-1", ...words });
  box.checked = chosen.includes(i);
  return [box, element("bdi.name", { title: SITES[i] }, SITES[i])];
}

// A field of what was read, with the interval in a tooltip.
function readField({ name, means: says, unit, values, row }) {
  const text = (i) => (row(i) ? compact(values()[i]) : "–");
  const tooltip = (i) => (row(i) ? told(row(i)) : "not measured");
  return { name, says, unit, width: "9rem", down: true, text, tooltip, key: (i) => values()[i] };
}

const depth = (i) => (DEPTH[i] < 0 ? "" : String(DEPTH[i]));
const shape = (i) => `${TALL[i]} × ${WIDE[i]}`;
const table = new Grid(byId("table"), {
  rows: EVERY,
  fields: [
    { name: "site", title: "matrix", width: "var(--site)", text: (i) => SITES[i], fill: compared },
    { name: "kind", width: "10.5rem", text: kind },
    { name: "depth", width: "5.2rem", text: depth, key: (i) => DEPTH[i] },
    { name: "shape", width: "8rem", text: shape, key: (i) => TALL[i] * WIDE[i] },
    { name: "dtype", width: "6rem", text: dtype, hidden: true },
    { name: "effort", width: "6rem", text: effort, hidden: true },
    ...COLUMNS.map((column) => ({ ...readField(column), hidden: !column.shown })),
  ],
  open: (i) => show(i),
  mark: toggle,
  chosen: (i) => chosen.includes(i),
});

const searched = kept(() => EVERY.map((i) => `${SITES[i]} ${kind(i)} ${dtype(i)}`.toLowerCase()));

function refresh() {
  const [holds, wanted] = [search("filter"), WORDS[0].words[byId("kind").value]];
  const [from, to] = ["from", "to"].map((id) => byId(id).valueAsNumber);
  const inside = (i) => !(DEPTH[i] < from || DEPTH[i] > to);
  const fits = (i) => [undefined, kind(i)].includes(wanted) && inside(i);
  table.show((i) => fits(i) && holds(searched()[i]));
  const of = table.order.length === COUNT ? "" : ` of ${COUNT}`;
  byId("count").textContent = `${table.order.length}${of} ${COUNT === 1 ? "matrix" : "matrices"}`;
}

// What was read of two matrices together; a row opens both.
function fillPairs() {
  const sites = data.pairs.site; // each a place, a sign and a place, or words
  const text = (i) => {
    const [left, sign, right] = sites[i];
    return Array.isArray(sites[i]) ? `${SITES[left]} ${sign} ${SITES[right]}` : sites[i];
  };
  const fill = (i) => [element("bdi.name", { title: text(i) }, text(i))];
  const between = { name: "site", title: "between", width: "24rem", grow: true, text, fill };
  const open = (i) => Array.isArray(sites[i]) && showAll([sites[i][0], sites[i][2]]);
  const fields = [between, ...PAIRS.map(readField)];
  const grid = new Grid(byId("pairs"), { rows: [...sites.keys()], fields, open });
  Object.assign(grid, { sort: grid.fields[1], down: true }).show();
}

// ---------------------------------------------------------------------------------------------
// Over depth: a quantity, a dot for each matrix of a kind.

const NOTHING = { name: "nothing", values: () => [], row: () => null };
const quantityShown = () => COLUMN.get(byId("quantity").value) ?? NOTHING;

// By depth where the kind has one, and none left of it; else in the order of the checkpoint.
function makeChart(name) {
  const list = EVERY.filter((i) => kind(i) === name).sort((a, b) => DEPTH[a] - DEPTH[b] || a - b);
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
  const kinds = WORDS[0].words;
  byId("charts").replaceChildren(...kinds.slice(0, most).map(makeChart));
  byId("all").hidden = kinds.length <= most;
}

function chooseQuantity() {
  const { scale: usual, means } = quantityShown();
  byId("log").checked = usual === "log";
  byId("means").textContent = means ?? "";
  redraw();
}
