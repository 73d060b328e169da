// Tables: readings, theorems, what was not measured, the circumstances.

// A field of rows that have a name and a text in it, or a number of their own to sort by.
function field(list, name, width, more = {}) {
  const text = more.text || ((i) => shown(list[i][name]));
  const key = more.key || ((row) => row[name]);
  const numbers = () => Float64Array.from(list, (row) => key(row) ?? NaN);
  const words = () => ranksOf(list.map((_, i) => text(i)));
  return { name, title: name, width, text, keys: kept(more.numeric ? numbers : words), ...more };
}

function siteField(list, title) {
  const name = (i) => element("bdi", { class: list[i].depth === null ? "still name" : "name" }, shown(list[i].site));
  return field(list, "site", "min(var(--site), 13rem)", { title, grow: true, fill: (i) => [name(i)], tooltip: (i) => shown(list[i].site) });
}

// Rows lead to their layer.
function gridOf(root, list, fields) {
  const open = (i) => {
    if (list[i].depth === null) return;
    choose(list[i].depth);
    byId("layer").scrollIntoView();
  };
  return new Grid(root, { fields: () => fields, open });
}

const READ = [
  siteField(rows, "site"),
  field(rows, "depth", "5rem", { numeric: true, text: (i) => String(rows[i].depth ?? "") }),
  field(rows, "view", "8.5rem"),
  field(rows, "form", "6rem"),
  field(rows, "quantity", "13rem"),
  field(rows, "value", "6rem", { numeric: true, text: (i) => compact(rows[i].value), tooltip: (i) => told(rows[i]) }),
  field(rows, "interval", "9.5rem", { numeric: true, text: (i) => interval(rows[i]), key: (row) => row.low }),
  field(rows, "how", "9rem", { grow: true }),
  field(rows, "risk", "4rem", { numeric: true, text: (i) => (rows[i].risk ? compact(rows[i].risk, 2) : "") }),
];
const table = gridOf(byId("rows"), rows, READ);
const searched = kept(() => rows.map((row) => `${shown(row.site)} ${row.quantity} ${row.form}`.toLowerCase()));

function refresh() {
  const [words, view] = [searchWords("filter"), byId("only").value];
  const passes = (row, i) => (!view || row.view === view) && words.every((word) => searched()[i].includes(word));
  table.show(rows.flatMap((row, i) => (passes(row, i) ? [i] : [])));
  byId("count").textContent = plural(table.order.length, "reading");
}

function fillTable() {
  const options = ["", ...VIEWS].map((view) => element("option", { value: view }, view || "all"));
  byId("only").replaceChildren(...options);
  for (const id of ["filter", "only"]) byId(id).addEventListener("input", refresh);
  refresh();
}

function assumed(check) {
  const met = (is) => (is === null ? "cannot be told" : is ? "met" : "not met");
  return check.assumptions.map(([says, is]) => `${shown(says)}: ${met(is)}`).join("; ");
}

// The table of a theorem is made when it is opened.
function theorem({ theorem: name, statement, source, checks }, place) {
  const counts = ["violated", "holds", "consistent", "vacuous", "inapplicable"]
    .map((verdict) => [verdict, checks.filter((check) => check.verdict === verdict).length])
    .filter(([, count]) => count > 0)
    .map(([verdict, count]) => element("span", { class: `verdict ${verdict}` }, `${verdict} at ${count}`));
  const root = element("div", { id: `theorem-${place}`, class: "table", role: "grid", tabindex: "0", "aria-label": `Checks of ${shown(name)}` });
  const title = element("summary", {}, element("strong", {}, shown(name)), element("span", { class: "statement" }, shown(statement)), ...counts);
  const whole = element("details", {}, title, element("p", { class: "hint" }, shown(source)), root);
  // a theorem that does not apply was asked for no number
  const sides = (i) => (checks[i].measured && checks[i].limit ? `${estimate(checks[i].measured)} ${checks[i].sense} ${estimate(checks[i].limit)}` : "");
  const verdict = (i) => [element("span", { class: `verdict ${checks[i].verdict}` }, checks[i].verdict)];
  const fields = [
    siteField(checks, "layer"),
    field(checks, "measured", "22rem", { title: "measured and limit", text: sides, numeric: true, key: (check) => check.measured?.value }),
    field(checks, "verdict", "8rem", { fill: verdict }),
    field(checks, "assumptions", "28rem", { text: (i) => assumed(checks[i]) }),
  ];
  whole.addEventListener("toggle", () => gridOf(root, checks, fields).show(checks.map((_, i) => i)), { once: true });
  return whole;
}

function fillTheorems() {
  const spoken = [...THEOREMS].sort((a, b) => Number(b.spoke.length > 0) - Number(a.spoke.length > 0));
  const none = element("p", { class: "empty" }, "No theorem was checked.");
  byId("checks").replaceChildren(...(spoken.length > 0 ? spoken.map(theorem) : [none]));
}

function fillRest() {
  reasons("skipped", data.skipped, SITES, "Everything that was asked for was measured.");
  const words = Object.entries(data.about).map(([key, value]) =>
    [element("dt", {}, titled(shown(key))), element("dd", {}, shown(value))]
  );
  byId("words").replaceChildren(element("dl", { class: "facts" }, ...words.flat()));
}
