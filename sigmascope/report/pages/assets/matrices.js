// The table of all matrices, of which only the rows in sight are in the document.

const ROW = 34; // pixels, as in scan.css
const BEYOND = 8; // rows drawn above and below what is in sight
const FIRST = ["spectral norm", "stable rank", "effective rank", "spikes", "noise distance", "power-law exponent", "relative change"];
const MOST = 4; // matrices that are compared

const FACTS = [
  { name: "site", title: "matrix", width: "var(--site)", text: (i) => shown(SITES[i]) },
  { name: "kind", title: "kind", width: "10.5rem", text: (i) => shown(word("kind", i)) },
  { name: "depth", title: "depth", width: "5.2rem", numeric: true, text: (i) => (data.matrices.depth[i] < 0 ? "" : String(data.matrices.depth[i])) },
  { name: "shape", title: "shape", width: "8rem", numeric: true, text: shape },
  { name: "dtype", title: "dtype", width: "6rem", text: (i) => shown(word("dtype", i)), optional: true },
  { name: "effort", title: "effort", width: "6rem", text: (i) => word("effort", i), optional: true },
];
const FIRSTS = FIRST.filter((name) => COLUMN.has(name)).map((name) => COLUMN.get(name));
const READ = [...new Set([...FIRSTS, ...COLUMNS])].map((column) => ({ name: column.name, title: column.name, width: "9rem", numeric: true, column, optional: true }));

const view = {
  fields: new Set(READ.map((f) => f.name).filter((name) => FIRST.includes(name))),
  sort: null,
  down: false,
  order: [],
  active: 0,
};
const chosen = []; // places of the matrices that are shown, the newest last

const searched = SITES.map((site, i) => `${shown(site)} ${shown(word("kind", i))} ${word("dtype", i)}`.toLowerCase());
const ranks = new Map(); // of words, by column, computed once

function fieldsShown() {
  return [...FACTS, ...READ].filter((f) => !f.optional || view.fields.has(f.name));
}

// What a column is sorted by: numbers, those of depth and size too; words by their order.
function keysOf(field) {
  if (field.column) return field.column.values;
  if (field.name === "depth") return data.matrices.depth;
  if (!ranks.has(field.name)) {
    const keys = new Float64Array(COUNT);
    if (field.name === "shape") keys.forEach((_, i) => (keys[i] = data.matrices.rows[i] * data.matrices.cols[i]));
    else {
      const order = new Intl.Collator("en", { numeric: true }).compare;
      const words = SITES.map((_, i) => field.text(i));
      const places = new Map([...new Set(words)].sort(order).map((text, i) => [text, i]));
      words.forEach((text, i) => (keys[i] = places.get(text)));
    }
    ranks.set(field.name, keys);
  }
  return ranks.get(field.name);
}

function end(id, otherwise) {
  const text = byId(id).value.trim();
  return text === "" || Number.isNaN(Number(text)) ? otherwise : Number(text);
}

// The rows that pass the filters, in the order wanted; what was not read stands last.
function arrange() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = byId("kind").value === "" ? -1 : Number(byId("kind").value);
  const [low, high] = [end("from", -Infinity), end("to", Infinity)];
  view.order = [];
  for (let i = 0; i < COUNT; i += 1) {
    const depth = data.matrices.depth[i];
    const kept = (kind < 0 || data.matrices.kind.at[i] === kind) && depth >= low && depth <= high;
    if (kept && words.every((w) => searched[i].includes(w))) view.order.push(i);
  }
  const field = [...FACTS, ...READ].find((f) => f.name === view.sort);
  if (field) {
    const [keys, sign] = [keysOf(field), view.down ? -1 : 1];
    const known = view.order.filter((i) => !Number.isNaN(keys[i]));
    const rest = view.order.filter((i) => Number.isNaN(keys[i]));
    view.order = [...known.sort((a, b) => sign * (keys[a] === keys[b] ? 0 : keys[a] < keys[b] ? -1 : 1) || a - b), ...rest];
  }
  view.active = Math.min(view.active, Math.max(0, view.order.length - 1));
}

function refresh() {
  arrange();
  byId("table").scrollTop = 0;
  drawTable();
}

function sortBy(field) {
  view.down = view.sort === field.name ? !view.down : Boolean(field.numeric && field.column);
  view.sort = field.name;
  refresh();
  byId("table").querySelector(`[data-field="${CSS.escape(field.name)}"]`).focus({ preventScroll: true });
}

function headCell(field) {
  const order = view.sort !== field.name ? "none" : view.down ? "descending" : "ascending";
  const unit = field.column && field.column.spec.unit ? element("span", { class: "unit" }, field.column.spec.unit) : null;
  const button = element(
    "button",
    { type: "button", "data-field": field.name, title: field.column ? meaning(field.column.spec) : `sort by ${field.title}`, onclick: () => sortBy(field) },
    element("span", { class: "title" }, field.title),
    unit
  );
  return element("div", { role: "columnheader", "aria-sort": order, class: field.numeric ? "n" : field.name }, button);
}

function cell(field, i) {
  if (field.name === "site") {
    const box = element("input", { type: "checkbox", tabindex: "-1", "aria-label": "compare", title: `compare up to ${MOST}` });
    box.checked = chosen.includes(i);
    box.addEventListener("click", (event) => {
      event.stopPropagation();
      toggle(i);
    });
    return element("div", { role: "rowheader", class: "site" }, box, element("bdi", { class: "name", title: shown(SITES[i]) }, shown(SITES[i])));
  }
  if (!field.column) return element("div", { role: "gridcell", class: field.numeric ? "n" : field.name, title: field.text(i) }, field.text(i));
  const row = field.column.row(i);
  return element("div", { role: "gridcell", class: "n", title: row ? told(row) : "not measured" }, row ? compact(row.value) : "–");
}

function drawTable() {
  const [table, body, fields] = [byId("table"), byId("body"), fieldsShown()];
  table.style.setProperty("--columns", fields.map((f) => f.width).join(" "));
  byId("head").replaceChildren(...fields.map(headCell));
  table.setAttribute("aria-rowcount", String(view.order.length + 1));
  table.setAttribute("aria-colcount", String(fields.length));
  body.style.height = `${view.order.length * ROW}px`;
  const of = view.order.length === COUNT ? "" : ` of ${COUNT}`;
  byId("count").textContent = `${view.order.length}${of} ${COUNT === 1 ? "matrix" : "matrices"}`;
  drawRows();
}

function drawRows() {
  const [table, fields] = [byId("table"), fieldsShown()];
  const from = Math.max(0, Math.floor(table.scrollTop / ROW) - BEYOND);
  const to = Math.min(view.order.length, Math.ceil((table.scrollTop + table.clientHeight) / ROW) + BEYOND);
  const made = [];
  for (let place = from; place < to; place += 1) {
    const i = view.order[place];
    const states = [place === view.active ? "active" : "", chosen.includes(i) ? "chosen" : ""].join(" ");
    const options = { role: "row", class: `row ${states}`, id: `row-${place}`, "aria-rowindex": String(place + 2), "aria-selected": String(chosen.includes(i)) };
    const row = element("div", options, ...fields.map((f) => cell(f, i)));
    row.style.top = `${place * ROW}px`;
    row.addEventListener("click", () => {
      view.active = place;
      show(i);
    });
    made.push(row);
  }
  byId("body").replaceChildren(...made);
  if (view.order.length > 0) table.setAttribute("aria-activedescendant", `row-${view.active}`);
}

// Arrows walk through the rows, Enter opens one, the space bar compares it.
function walk(event) {
  if (event.target !== byId("table")) return;
  const page = Math.max(1, Math.floor(byId("table").clientHeight / ROW) - 2);
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -COUNT, End: COUNT }[event.key];
  const i = view.order[view.active];
  if (step !== undefined) {
    view.active = Math.max(0, Math.min(view.order.length - 1, view.active + step));
    const [table, top] = [byId("table"), view.active * ROW];
    const seen = table.clientHeight - byId("head").offsetHeight - ROW;
    if (top < table.scrollTop) table.scrollTop = top;
    else if (top > table.scrollTop + seen) table.scrollTop = top - seen;
    drawRows();
  } else if (event.key === "Enter" && i !== undefined) show(i);
  else if (event.key === " " && i !== undefined) toggle(i);
  else return;
  event.preventDefault();
}

function fillColumns() {
  const box = (field) => {
    const input = element("input", { type: "checkbox", "data-column": field.name });
    input.checked = view.fields.has(field.name);
    input.addEventListener("change", () => {
      if (input.checked) view.fields.add(field.name);
      else view.fields.delete(field.name);
      drawTable();
    });
    return element("label", { title: field.column ? meaning(field.column.spec) : field.title }, input, field.title);
  };
  byId("columns").replaceChildren(...[...FACTS, ...READ].filter((f) => f.optional).map(box));
}

function fillTable() {
  const kinds = data.matrices.kind.words.map((kind, i) => element("option", { value: String(i) }, shortened(kind, 48)));
  byId("kind").replaceChildren(element("option", { value: "" }, "all"), ...kinds);
  for (const id of ["filter", "kind", "from", "to"]) byId(id).addEventListener("input", refresh);
  byId("table").addEventListener("scroll", once(drawRows), { passive: true });
  byId("table").addEventListener("keydown", walk);
  fillColumns();
  refresh();
}
