// Tables: readings, theorems, what was not measured, the circumstances.

const COLUMNS = [
  { key: "depth", title: "depth", numeric: true },
  { key: "site", title: "site" },
  { key: "view", title: "view" },
  { key: "form", title: "form" },
  { key: "quantity", title: "quantity" },
  { key: "value", title: "value", numeric: true },
  { key: "low", title: "interval", numeric: true },
  { key: "how", title: "how" },
  { key: "risk", title: "risk", numeric: true },
];
const AT_ONCE = 100;
const table = { key: null, down: false, limit: AT_ONCE };

function compare(a, b) {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  if (typeof a === "number") return a - b;
  return a.localeCompare(b, "en", { numeric: true });
}

function chosenRows() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const view = byId("only").value;
  const kept = rows.filter((row) => {
    const text = `${shown(row.site)} ${row.quantity} ${row.form}`.toLowerCase();
    return (!view || row.view === view) && words.every((word) => text.includes(word));
  });
  if (table.key === null) return kept;
  const sign = table.down ? -1 : 1;
  return kept.sort((a, b) => sign * compare(a[table.key], b[table.key]));
}

function cell(column, row) {
  if (column.key === "site") {
    const open = () => {
      choose(row.depth);
      byId("layer").scrollIntoView();
    };
    const name = named(row.site);
    if (row.depth === null) return element("td", {}, name);
    return element("td", {}, element("button", { type: "button", class: "name", onclick: open }, name));
  }
  const text = {
    value: () => compact(row.value),
    low: () => interval(row),
    depth: () => (row.depth === null ? "" : String(row.depth)),
    risk: () => (row.risk ? compact(row.risk, 2) : ""),
  }[column.key];
  const options = column.numeric ? { class: "n" } : {};
  if (column.key === "value") options.title = `${row.value} in [${row.low}, ${row.high}]`;
  return element("td", options, text ? text() : shown(row[column.key]));
}

function drawHead() {
  const cells = COLUMNS.map((column) => {
    const sorted = table.key === column.key;
    const order = sorted ? (table.down ? "descending" : "ascending") : "none";
    const sort = () => {
      table.down = sorted && !table.down;
      table.key = column.key;
      drawRows();
      byId("rows").querySelector(`[data-key="${column.key}"]`).focus();
    };
    const button = element("button", { type: "button", "data-key": column.key, onclick: sort }, column.title);
    return element("th", { scope: "col", "aria-sort": order, class: column.numeric ? "n" : "" }, button);
  });
  return element("thead", {}, element("tr", {}, ...cells));
}

function drawRows() {
  const kept = chosenRows();
  const body = kept
    .slice(0, table.limit)
    .map((row) => element("tr", {}, ...COLUMNS.map((column) => cell(column, row))));
  byId("rows").replaceChildren(drawHead(), element("tbody", {}, ...body));
  byId("count").textContent = `${plural(kept.length, "reading")}, ${body.length} shown`;
  byId("more").hidden = kept.length <= table.limit;
}

function fillTable() {
  const options = ["", ...VIEWS].map((view) => element("option", { value: view }, view || "all"));
  byId("only").replaceChildren(...options);
  const again = () => {
    table.limit = AT_ONCE;
    drawRows();
  };
  byId("filter").addEventListener("input", again);
  byId("only").addEventListener("change", again);
  byId("more").addEventListener("click", () => {
    table.limit += 10 * AT_ONCE;
    drawRows();
  });
  drawRows();
}

function simpleTable(titles, lines) {
  const head = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const body = lines.map((cells) => element("tr", {}, ...cells.map((c) => element("td", {}, c))));
  const whole = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "panel scroll", tabindex: "0" }, whole);
}

function estimate(e) {
  return measured({ value: number(e.value), low: number(e.low), high: number(e.high) });
}

function theorem(name, checks) {
  const counts = ["violated", "holds", "consistent", "inapplicable"]
    .map((verdict) => [verdict, checks.filter((check) => check.verdict === verdict).length])
    .filter(([, count]) => count > 0)
    .map(([verdict, count]) => element("span", { class: `verdict ${verdict}` }, `${verdict} at ${count}`));
  const lines = checks.map((check) => [
    named(check.site),
    // a theorem that does not apply was asked for no number
    check.measured && check.limit ? `${estimate(check.measured)} ${check.sense} ${estimate(check.limit)}` : "",
    element("span", { class: `verdict ${check.verdict}` }, check.verdict),
    check.assumptions
      .map((a) => `${shown(a.says)}: ${a.met === null ? "cannot be told" : a.met ? "met" : "not met"}`)
      .join("; "),
  ]);
  return element(
    "details",
    {},
    element("summary", {}, element("strong", {}, shown(name)), element("span", { class: "statement" }, shown(checks[0].statement)), ...counts),
    element("p", { class: "hint" }, shown(checks[0].source)),
    simpleTable(["layer", "measured and limit", "verdict", "assumptions"], lines)
  );
}

function fillTheorems() {
  const spoke = data.checks.filter((check) => check.verdict !== "inapplicable");
  const names = [...new Set([...spoke, ...data.checks].map((check) => check.theorem))];
  const parts = names.map((name) => theorem(name, data.checks.filter((c) => c.theorem === name)));
  const none = element("p", { class: "empty" }, "No theorem was checked.");
  byId("checks").replaceChildren(...(parts.length > 0 ? parts : [none]));
}

function fillRest() {
  const lines = data.skipped.map((s) => [named(s.site), shown(s.what), shown(s.why)]);
  const none = element("p", { class: "empty" }, "Everything that was asked for was measured.");
  byId("skipped").replaceChildren(lines.length > 0 ? simpleTable(["site", "what", "why"], lines) : none);
  const words = Object.entries(data.about).map(([key, value]) =>
    [element("dt", {}, titled(shown(key))), element("dd", {}, shown(value))]
  );
  byId("words").replaceChildren(element("dl", { class: "facts" }, ...words.flat()));
}
