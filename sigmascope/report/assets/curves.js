// Curves over depth: a panel for each unit, with intervals, bounds, findings, the layer chosen.

const { sites: SITES, layers: LAYERS } = data; // layers with readings, by depth

// What was read, by columns: words that many share, numbers, others as they are, and the place of
// their sites.
function rowsOf({ site, ...columns }) {
  const rows = site.map((place) => ({ site: SITES[place], depth: data.depths[place] }));
  for (const [name, column] of Object.entries(columns)) {
    const { row: one = (i) => column[i] } = column.value ? columnOf(column, rows.length) : {};
    const read = column.words ? wordsOf(column, rows.length) : one;
    for (const [i, row] of rows.entries()) row[name] = read(i);
  }
  return rows;
}

const rows = rowsOf(data.readings);
for (const row of rows) Object.assign(row, row.estimate);
const placed = rows.filter(({ depth }) => depth !== null).sort((a, b) => a.depth - b.depth);
// where each theorem was checked, and what came of it there
const CHECKS = data.theorems.map((theorem) => kept(() => rowsOf(theorem)));
const state = { view: "", form: "", depth: data.start };
const forms = {}; // that is shown, of each view
let panels = []; // of the view and form that are shown

const wholeDepth = () => around(LAYERS[0].depth, LAYERS.at(-1).depth, 0.01, 0.6);
const depths = new Sight(wholeDepth, byId("whole"));
const formsOf = (view) => data.views.find((one) => one.view === view).forms;

// Of what is told by curve, what belongs to a quantity as it is shown.
function onCurve(told, quantity) {
  const here = [state.view, state.form, quantity];
  return told.filter(({ curve }) => curve.every((part, i) => part === here[i]));
}

function said(row) {
  const kind = LAYERS.find(({ depth }) => depth === row.depth)?.kind;
  const title = `${shortened(row.site, 60)}${kind ? ` (${kind})` : ""}`;
  const usual = onCurve(data.usual, row.quantity).map(({ says }) => says).join("; ");
  const reading = `${row.quantity}: ${measured(row)}`;
  return [title, reading, row.how, chance(row.risk), usual && `usual: ${usual}`];
}

// A line of what has a depth and a value.
function lineOf(list, says, looks) {
  const column = (name) => list.map((one) => one[name] ?? NaN);
  const [x, y, low, high] = ["depth", "value", "low", "high"].map(column);
  return { kind: "line", x, y, low, high, says: says && ((i) => says(list[i])), ...looks };
}

// The bounds on a curve, crossed where they are broken.
function boundsOn(quantity, colour) {
  return onCurve(data.bounds, quantity).flatMap(({ theorem, sense, says, place, points }) => {
    const checks = points.map((i) => CHECKS[place]()[i] ?? {});
    const limits = checks.map((check) => ({ ...check, ...check.limit }));
    const broken = limits.filter(({ verdict }) => verdict === "violated");
    const words = ({ site, value, verdict }) => {
      return [shortened(site, 60), `${theorem}: ${sense} ${compact(value)}`, says, verdict];
    };
    const dashed = { colour, dash: [8, 5], width: 3, dots: false };
    const crossed = { colour: ink("--error"), joined: false, shape: CROSS, radius: 6 };
    return [lineOf(limits, words, dashed), lineOf(broken, null, crossed)];
  });
}

// The layer that is chosen, where each finding begins that rests on the panel, and curves with
// their intervals and bounds; one alone also with what is usual.
function specOf({ quantities, lines }) {
  const rests = ([view, quantity]) => view === state.view && quantities.includes(quantity);
  const found = data.findings.filter(({ depth, rest }) => depth !== null && rest.some(rests));
  const begins = found.map(({ name, severity, depth }, row) => {
    const how = { dash: [2, 3], words: shortened(name, 40), row };
    return { kind: "uprights", x: [depth], colour: ink(`--${severity}`), ...how };
  });
  const drawn = lines.filter(({ key }) => !hidden.has(key));
  const curves = drawn.flatMap(({ quantity, index, list }) => {
    const colour = tone(index);
    const line = lineOf(list, said, { colour, shape: index % INKS });
    const usual = drawn.length === 1 && checked("usual") ? onCurve(data.usual, quantity) : [];
    const bands = usual.map(({ low, high }) => {
      return { kind: "band", low: [low, low], high: [high, high], colour, alpha: 0.07 };
    });
    const bounds = checked("bounds") ? boundsOn(quantity, colour) : [];
    return [...bands, ...intervals(line), line, ...bounds];
  });
  const here = { colour: ink("--accent"), width: 6, alpha: 0.25 };
  const marks = [{ kind: "uprights", x: [state.depth], ...here }, ...begins, ...curves];
  const y = { log: checked("log") && "auto", room: 16 * found.length };
  return { x: { whole: true, title: "depth of the layer" }, y, marks };
}

// A figure with a button for each line, where there are several, and notes on their bounds; tiles
// where there is one depth only.
function panelOf({ title, quantities }) {
  // what has one form only goes with every form: a linear layer's matrix beside the operators of
  // convolutions, and what is no matrix at all
  const forms = [state.form, "", "matrix"];
  const here = placed.filter(({ view, form }) => view === state.view && forms.includes(form));
  const lines = quantities.map((quantity, index) => {
    const list = here.filter((row) => row.quantity === quantity);
    return { quantity, index, key: `${state.view}|${quantity}`, list };
  });
  const caption = element("figcaption", {}, element("h3", {}, title));
  const figure = element("figure.panel", { tabindex: "-1" }, caption);
  const all = lines.flatMap(({ list }) => list);
  if (new Set(all.map(({ depth }) => depth)).size < 2) {
    const tiles = all.map((row) => {
      const name = element("dt", {}, `${row.quantity} at ${row.site}`);
      return element("div", {}, name, element("dd", {}, measured(row)));
    });
    figure.append(element("dl.tiles", {}, ...tiles));
    return { quantities, figure };
  }
  const keys = lines.flatMap(({ key, quantity, index }) => {
    const pressed = { type: "button", "data-line": key, "aria-pressed": !hidden.has(key) };
    return lines.length > 1 ? [element("button", { ...pressed, ...toned(index) }, quantity)] : [];
  });
  const notes = lines.flatMap(({ quantity, index }) =>
    onCurve(data.bounds, quantity).map(({ theorem, sense }) => {
      return element("span.bound", toned(index), `${quantity} is ${sense} this (${theorem})`);
    }),
  );
  const ends = lines.map(({ quantity, list }) => {
    const [first, last] = [list[0], list.at(-1)].map(({ value }) => compact(value));
    return `${quantity} from ${first} at the first layer to ${last} at the last`;
  });
  const words = `Curves over depth: ${ends.join("; ")}. Arrow keys walk, Enter opens a layer.`;
  const canvas = element("canvas.plot", { tabindex: "0", role: "img", "aria-label": words });
  caption.append(element("div.legend", {}, ...keys, ...notes));
  figure.append(canvas);
  const open = ({ mark, i }) => choose(mark.x[i]);
  const chart = new Chart(canvas, { open, sight: depths }, () => specOf({ quantities, lines }));
  return { quantities, figure, chart };
}

// Panels are made anew for another view or form; all else is drawn into those there are.
function show(view, form = forms[view] ?? formsOf(view)[0].form) {
  Object.assign(state, { view, form });
  forms[view] = form;
  for (const tab of document.querySelectorAll("[data-view]")) {
    tab.setAttribute("aria-pressed", String(tab.dataset.view === view));
  }
  const all = formsOf(view);
  each("hidden", { "form-label": all.length < 2, tip: true });
  byId("form").replaceChildren(...all.map((one) => element("option", {}, one.form)));
  byId("form").value = form;
  panels = all.find((one) => one.form === form).panels.map(panelOf);
  byId("panels").replaceChildren(...panels.map(({ figure }) => figure));
  redraw();
}
