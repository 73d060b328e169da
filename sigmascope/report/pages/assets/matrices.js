// The table of all matrices.

const FIRST = ["spectral norm", "stable rank", "effective rank", "spikes", "noise distance", "power-law exponent", "relative change"];
const MOST = 4; // matrices that are compared
const chosen = []; // places of the matrices that are shown, the newest last

// The name, with a box to compare the matrix with others.
function compared(i) {
  const box = element("input", { type: "checkbox", tabindex: "-1", "aria-label": "compare", title: `compare up to ${MOST}` });
  box.checked = chosen.includes(i);
  box.addEventListener("click", (event) => {
    event.stopPropagation();
    toggle(i);
  });
  return [box, element("bdi", { class: "name", title: shown(SITES[i]) }, shown(SITES[i]))];
}

const { depth: DEPTH, rows: TALL, cols: WIDE } = data.matrices;
const FACTS = [
  { name: "site", title: "matrix", width: "var(--site)", text: (i) => shown(SITES[i]), fill: compared },
  { name: "kind", title: "kind", width: "10.5rem", text: (i) => shown(word("kind", i)) },
  { name: "depth", title: "depth", width: "5.2rem", numeric: true, text: (i) => (DEPTH[i] < 0 ? "" : String(DEPTH[i])), keys: () => DEPTH },
  { name: "shape", title: "shape", width: "8rem", numeric: true, text: shape, keys: kept(() => TALL.map((rows, i) => rows * WIDE[i])) },
  { name: "dtype", title: "dtype", width: "6rem", text: (i) => shown(word("dtype", i)), optional: true },
  { name: "effort", title: "effort", width: "6rem", text: (i) => word("effort", i), optional: true },
].map((field) => ({ keys: kept(() => ranksOf(SITES.map((_, i) => field.text(i)))), ...field }));

function readField(column) {
  const text = (i) => (column.row(i) ? compact(column.values[i]) : "–");
  const tooltip = (i) => (column.row(i) ? told(column.row(i)) : "not measured");
  const words = { title: column.name, says: meaning(column.spec), unit: column.spec.unit };
  return { name: column.name, ...words, width: "9rem", numeric: true, optional: true, down: true, text, tooltip, keys: () => column.values };
}

const FIRSTS = FIRST.filter((name) => COLUMN.has(name)).map((name) => COLUMN.get(name));
const READ = [...new Set([...FIRSTS, ...COLUMNS])].map(readField);
const picked = new Set(READ.map((f) => f.name).filter((name) => FIRST.includes(name)));
const searched = SITES.map((site, i) => `${shown(site)} ${shown(word("kind", i))} ${word("dtype", i)}`.toLowerCase());

const table = new Grid(byId("table"), {
  fields: () => [...FACTS, ...READ].filter((f) => !f.optional || picked.has(f.name)),
  open: (i) => show(i),
  mark: (i) => toggle(i),
  chosen: (i) => chosen.includes(i),
});

function end(id, otherwise) {
  const text = byId(id).value.trim();
  return text === "" || Number.isNaN(Number(text)) ? otherwise : Number(text);
}

// The rows that pass the filters.
function refresh() {
  const words = searchWords("filter");
  const kind = byId("kind").value === "" ? -1 : Number(byId("kind").value);
  const [low, high] = [end("from", -Infinity), end("to", Infinity)];
  const passes = (i) => (kind < 0 || data.matrices.kind.at[i] === kind) && DEPTH[i] >= low && DEPTH[i] <= high;
  const all = SITES.map((_, i) => i);
  table.show(all.filter((i) => passes(i) && words.every((w) => searched[i].includes(w))));
  const of = table.order.length === COUNT ? "" : ` of ${COUNT}`;
  byId("count").textContent = `${table.order.length}${of} ${COUNT === 1 ? "matrix" : "matrices"}`;
}

function fillColumns() {
  const box = (field) => {
    const input = element("input", { type: "checkbox", "data-column": field.name });
    input.checked = picked.has(field.name);
    input.addEventListener("change", () => {
      if (input.checked) picked.add(field.name);
      else picked.delete(field.name);
      table.draw();
    });
    return element("label", { title: field.says || field.title }, input, field.title);
  };
  byId("columns").replaceChildren(...[...FACTS, ...READ].filter((f) => f.optional).map(box));
}

function fillTable() {
  const kinds = data.matrices.kind.words.map((kind, i) => element("option", { value: String(i) }, shortened(kind, 48)));
  byId("kind").replaceChildren(element("option", { value: "" }, "all"), ...kinds);
  for (const id of ["filter", "kind", "from", "to"]) byId(id).addEventListener("input", refresh);
  fillColumns();
  refresh();
}
