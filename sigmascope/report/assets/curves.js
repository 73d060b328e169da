// Curves over depth: a panel for each unit, with intervals, bounds, findings, the layer chosen.

let panels = []; // of the view and form that are shown

// Of what is told by curve, what belongs to a quantity as it is shown.
function onCurve(told, quantity) {
  const here = [state.view, state.form[state.view], quantity];
  return told.filter(({ curve }) => curve.every((part, i) => part === here[i]));
}

function said(row) {
  const kind = LAYERS.find(({ depth }) => depth === row.depth)?.kind;
  const title = `${shortened(row.site, 60)}${kind ? ` (${kind})` : ""}`;
  const usual = onCurve(data.usual, row.quantity).map(({ says }) => says).join("; ");
  const reading = `${row.quantity}: ${measured(row)}`;
  return [title, reading, row.how, chance(row.risk), usual && `usual: ${usual}`];
}

// A mark of what has a depth and a value.
function markOf(list, says, looks) {
  const [x, y] = ["depth", "value"].map((name) => list.map((one) => one[name] ?? NaN));
  return { kind: "line", x, y, says: says && ((i) => says(list[i])), ...looks };
}

function wholeDepth() {
  const [first, last] = [LAYERS[0].depth, LAYERS.at(-1).depth];
  const room = 0.6 + 0.01 * (last - first);
  return { low: first - room, high: last + room };
}

// Where each finding begins that rests on the panel, and the layer that is chosen.
function uprights(found) {
  const begins = found.map(({ name, severity, depth }, row) => {
    const how = { dash: [2, 3], words: shortened(name, 40), row };
    return { kind: "uprights", x: [depth], colour: ink(`--${severity}`), ...how };
  });
  const here = { colour: ink("--accent"), width: 6, alpha: 0.25 };
  return [{ kind: "uprights", x: [state.depth], ...here }, ...begins];
}

// A curve with its intervals and the bounds on it; alone, also with what is usual.
function marksOf({ quantity, index, list }, alone, x) {
  const colour = tone(index);
  const [low, high] = ["low", "high"].map((end) => list.map((row) => row[end]));
  const line = markOf(list, said, { colour, shape: index % INKS });
  const usual = state.usual && alone ? onCurve(data.usual, quantity) : [];
  const bounds = state.bounds ? onCurve(data.bounds, quantity) : [];
  const dashed = { colour, dash: [8, 5], width: 3, dots: false };
  const crossed = { colour: ink("--error"), joined: false, shape: CROSS, radius: 6 };
  return [
    ...usual.map((ends) => {
      const sides = { low: [ends.low, ends.low], high: [ends.high, ends.high] };
      return { kind: "band", x: [x.low, x.high], ...sides, colour, alpha: 0.07 };
    }),
    ...(list.some(matters) ? [{ kind: "band", x: line.x, low, high, colour, alpha: 0.16 }] : []),
    line,
    ...bounds.flatMap(({ theorem, sense, says, place, points: places }) => {
      const checks = CHECKS[place]();
      const points = places.map((i) => (i === null ? {} : { ...checks[i], ...checks[i].limit }));
      const words = ({ site, value, verdict }) => {
        return [shortened(site, 60), `${theorem}: ${sense} ${compact(value)}`, says, verdict];
      };
      const broken = points.filter(({ verdict }) => verdict === "violated");
      return [markOf(points, words, dashed), markOf(broken, null, crossed)];
    }),
  ];
}

function specOf({ quantities, lines }) {
  const x = { ...(state.range || wholeDepth()), whole: true, title: "depth of the layer" };
  const drawn = lines.filter(({ key }) => !state.hidden.has(key));
  const rests = ([view, quantity]) => view === state.view && quantities.includes(quantity);
  const found = data.findings.filter(({ depth, rest }) => depth !== null && rest.some(rests));
  const marks = drawn.flatMap((line) => marksOf(line, drawn.length === 1, x));
  const y = { log: state.log && "auto", room: 16 * found.length };
  return { x, y, marks: [...uprights(found), ...marks] };
}

// A button for each line, where there are several, and notes on the bounds that are drawn.
function legendOf(lines) {
  const toned = (index) => `--tone: var(--c${index % INKS})`;
  const buttons = lines.map(({ key, quantity, index }) => {
    const looks = { type: "button", "data-line": key, style: toned(index) };
    return element("button", looks, quantity);
  });
  const notes = lines.flatMap(({ quantity, index }) =>
    onCurve(data.bounds, quantity).map(({ theorem, sense }) => {
      const words = `${quantity} is ${sense} this (${theorem})`;
      return element("span", { class: "bound", style: toned(index) }, words);
    }),
  );
  const several = lines.length > 1 ? buttons : [];
  return { legend: element("div", { class: "legend" }, ...several), notes };
}

// What has one form only goes with every form: a linear layer's matrix beside the operators of
// convolutions, and what is no matrix at all.
function readingsOf(quantity) {
  const forms = [state.form[state.view], "", "matrix"];
  const here = rows.filter((row) => row.view === state.view && row.quantity === quantity);
  const placed = here.filter(({ depth, form }) => depth !== null && forms.includes(form));
  return placed.sort((a, b) => a.depth - b.depth);
}

function figureOf({ title, quantities }) {
  const lines = quantities.map((quantity, index) => {
    return { quantity, index, key: `${state.view}|${quantity}`, list: readingsOf(quantity) };
  });
  const panel = { quantities, lines, ...legendOf(lines) };
  const caption = element("figcaption", {}, element("h3", {}, title));
  panel.figure = element("figure", { class: "panel", tabindex: "-1" }, caption);
  const all = lines.flatMap(({ list }) => list);
  if (new Set(all.map(({ depth }) => depth)).size < 2) {
    const tiles = all.map((row) => {
      const name = element("dt", {}, `${row.quantity} at ${row.site}`);
      return element("div", {}, name, element("dd", {}, measured(row)));
    });
    panel.figure.append(element("dl", { class: "tiles" }, ...tiles));
    return panel;
  }
  const ends = lines.map(({ quantity, list }) => {
    const [first, last] = [list[0], list.at(-1)].map(({ value }) => compact(value));
    return `${quantity} from ${first} at the first layer to ${last} at the last`;
  });
  const words = `Curves over depth: ${ends.join("; ")}. Arrow keys walk, Enter opens a layer.`;
  const looks = { class: "plot", tabindex: "0", role: "img", "aria-label": words };
  const canvas = element("canvas", looks);
  caption.append(panel.legend);
  panel.figure.append(canvas);
  const open = ({ mark, i }) => choose(mark.x[i]);
  panel.chart = new Chart(canvas, () => specOf(panel), { open, look: lookAt, whole: wholeDepth });
  return panel;
}

// Panels are made anew for another view or form; all else is drawn into those there are.
function show(view, form = state.form[view]) {
  state.view = view;
  state.form[view] = form;
  const { forms } = data.views.find((one) => one.view === view);
  for (const tab of document.querySelectorAll("[data-view]")) {
    tab.setAttribute("aria-pressed", String(tab.dataset.view === view));
  }
  byId("form-label").hidden = forms.length < 2;
  byId("form").replaceChildren(...forms.map((one) => element("option", {}, one.form)));
  byId("form").value = form;
  byId("tip").hidden = true;
  panels = forms.find((one) => one.form === form).panels.map(figureOf);
  byId("panels").replaceChildren(...panels.map(({ figure }) => figure));
  drawCurves();
}

function drawCurves() {
  for (const { legend, notes, chart } of panels) {
    for (const note of notes) note.remove();
    if (state.bounds) legend.append(...notes);
    for (const button of legend.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(!state.hidden.has(button.dataset.line)));
    }
    chart?.draw();
  }
}

// All panels look at the same layers.
function lookAt(range) {
  state.range = range;
  byId("whole").hidden = range === null;
  drawCurves();
}

// Where the evidence of a finding can be seen.
function locate({ shows, at }) {
  if (shows) {
    const [view, form, quantity] = shows;
    const { forms } = data.views.find((one) => one.view === view);
    state.hidden.delete(`${view}|${quantity}`);
    show(view, forms.some((one) => one.form === form) ? form : undefined);
  }
  choose(at ?? state.depth);
  const panel = shows && panels.find(({ quantities }) => quantities.includes(shows[2]));
  if (!panel) return byId("curves").scrollIntoView();
  panel.figure.classList.add("found");
  panel.figure.focus({ preventScroll: true });
  panel.figure.scrollIntoView({ block: "center" });
}
