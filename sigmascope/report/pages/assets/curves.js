// Curves over depth: one panel for each unit, with intervals, bounds, findings and the layer chosen.

function said(row) {
  const layer = layerAt.get(row.depth);
  return [
    `${shortened(row.site, 60)}${layer ? ` (${shown(layer.kind)})` : ""}`,
    `${shown(row.quantity)}: ${measured(row)}`,
    shown(row.how),
    chance(row.risk),
    usually(row.quantity),
  ];
}

// Of what is told by curve, what belongs to the quantity as it is shown.
function onCurve(told, quantity) {
  const found = [state.view, state.form[state.view], quantity];
  return told.filter(({ curve }) => curve.every((part, i) => part === found[i]));
}

// Where most readings lie of networks that train, in words.
function usually(quantity) {
  const parts = onCurve(data.usual, quantity).map(
    ({ stage, low, high, networks }) => `${compact(low)} to ${compact(high)} ${stage === "start" ? "at the start" : "trained"} (${networks} networks)`
  );
  return parts.length > 0 ? `usual: ${parts.join("; ")}` : "";
}

// A bound where its theorem applies; where it does not there is none, and no line across.
function limits(bound) {
  const theorem = THEOREMS.find((t) => t.theorem === bound.theorem);
  const points = theorem.spoke.filter((c) => c.depth !== null && c.limit).sort((a, b) => a.depth - b.depth);
  return points.flatMap((c, i) => {
    const says = () => [
      shortened(c.site, 60),
      `${shown(bound.theorem)}: ${c.sense} ${compact(c.limit.value)}`,
      shown(theorem.statement),
      c.verdict,
    ];
    const point = { x: c.depth, y: c.limit.value, says, depth: c.depth, verdict: c.verdict };
    const apart = i > 0 && placeOf.get(c.depth) - placeOf.get(points[i - 1].depth) > 1;
    return apart ? [{ ...point, y: NaN }, point] : [point];
  });
}

// Findings that rest on this panel, where they begin.
function foundIn(panel) {
  const rests = (r) => r.view === state.view && panel.quantities.includes(r.quantity);
  return data.findings.filter((finding) => finding.depth !== null && finding.evidence.some(rests));
}

// Where each finding begins, and the layer that is chosen.
function drawMarks(drawn, found) {
  const { context, px, box } = drawn;
  const upright = (depth, colour, how) => {
    const x = px(depth);
    if (x < box.left || x > box.right) return false;
    Object.assign(context, { strokeStyle: colour, lineWidth: how.width, globalAlpha: how.alpha });
    context.setLineDash(how.dash);
    context.beginPath();
    context.moveTo(x, box.top);
    context.lineTo(x, box.bottom);
    context.stroke();
    return true;
  };
  context.save();
  if (state.depth !== null) upright(state.depth, ink("--accent"), { width: 6, alpha: 0.25, dash: [] });
  found.forEach((finding, i) => {
    const colour = ink(`--${finding.severity}`);
    if (!upright(finding.depth, colour, { width: 1.5, alpha: 1, dash: [2, 3] })) return;
    const late = px(finding.depth) > box.left + 0.65 * (box.right - box.left);
    Object.assign(context, { fillStyle: colour, textAlign: late ? "right" : "left", textBaseline: "bottom" });
    context.fillText(shortened(finding.name, 40), px(finding.depth) + (late ? -4 : 4), box.top - 2 - 16 * i);
  });
  context.restore();
}

// Each quantity that is not hidden, with its place among the colours, its readings, what is usual and its bounds.
function linesOf(panel, series) {
  const all = panel.quantities.map((quantity, index) => ({
    index,
    rows: series.get(quantity),
    hidden: state.hidden.has(`${state.view}|${quantity}`),
    usual: state.usual ? onCurve(data.usual, quantity) : [],
    bounds: state.bounds ? onCurve(data.bounds, quantity).map(limits) : [],
  }));
  return all.filter(({ hidden }) => !hidden);
}

function wholeDepth() {
  const [first, last] = [DEPTHS[0], DEPTHS[DEPTHS.length - 1]];
  const room = 0.6 + 0.01 * (last - first);
  return { low: first - room, high: last + room };
}

// All panels look at the same layers.
function lookAt(range) {
  state.range = range;
  byId("whole").hidden = range === null;
  drawCurves();
}

function drawPanel(one, panel, series) {
  const x = { ...(state.range || wholeDepth()), whole: true, title: "depth of the layer" };
  const lines = linesOf(panel, series);
  const inside = (depth) => depth >= x.low && depth <= x.high;
  const values = lines.flatMap((each) => each.rows.filter((row) => inside(row.depth)).map((row) => row.value));
  const shownLimits = lines.flatMap((each) => each.bounds.flat().filter((p) => inside(p.x)).map((p) => p.y));
  const found = foundIn(panel);
  const y = { ...ends([...values, ...shownLimits], state.log && spansDecades(values)), room: 16 * found.length };
  const drawn = chart(one.canvas, x, y);
  drawMarks(drawn, found);
  const spots = [];
  within(drawn, () => {
    // Of several curves they would lie on one another.
    for (const { index, usual } of lines.length === 1 ? lines : []) {
      for (const { low, high } of usual) band(drawn, [[x.low, low, high], [x.high, low, high]], tone(index), 0.07);
    }
    for (const { index, rows: read, bounds } of lines) {
      if (read.some(matters)) band(drawn, read.map((row) => [row.depth, row.low, row.high]), tone(index));
      const points = read.map((row) => ({ x: row.depth, y: row.value, depth: row.depth, says: () => said(row) }));
      spots.push(...curve(drawn, points, index, {}));
      for (const bound of bounds) {
        const limit = curve(drawn, bound, index, { dash: [8, 5], width: 3, single: false });
        const failed = limit.filter((spot) => spot.verdict === "violated");
        for (const spot of failed) cross(drawn.context, spot.x, spot.y, 6, ink("--error"));
        spots.push(...limit);
      }
    }
  });
  one.spots = spots.sort((a, b) => a.x - b.x || a.y - b.y);
  return drawn;
}

function summary(panel, series) {
  const ends = panel.quantities.map((quantity) => {
    const read = series.get(quantity);
    const [first, last] = [read[0], read[read.length - 1]].map((row) => compact(row.value));
    return `${quantity} from ${first} at the first layer to ${last} at the last`;
  });
  return `Curves over depth: ${ends.join("; ")}. Arrow keys walk, Enter opens a layer.`;
}

function legend(panel) {
  const entries = panel.quantities.map((quantity, index) => {
    const key = `${state.view}|${quantity}`;
    const toggle = () => {
      if (!state.hidden.delete(key)) state.hidden.add(key);
      drawCurves();
      byId("panels").querySelector(`[data-key="${CSS.escape(key)}"]`).focus();
    };
    const pressed = String(!state.hidden.has(key));
    const button = element(
      "button", { type: "button", "aria-pressed": pressed, "data-key": key, onclick: toggle }, shown(quantity)
    );
    button.style.setProperty("--tone", `var(${INKS[index % INKS.length]})`);
    return button;
  });
  const notes = panel.quantities.flatMap((quantity, index) =>
    onCurve(data.bounds, quantity).map((bound) => {
      const { sense } = THEOREMS.find((t) => t.theorem === bound.theorem).spoke[0];
      const note = element("span", { class: "bound" }, `${shown(quantity)} is ${sense} this (${shown(bound.theorem)})`);
      note.style.setProperty("--tone", `var(${INKS[index % INKS.length]})`);
      return note;
    })
  );
  const drawn = [...(entries.length > 1 ? entries : []), ...(state.bounds ? notes : [])];
  return element("div", { class: "legend" }, ...drawn);
}

function figure(panel, series) {
  const caption = element("figcaption", {}, element("h3", {}, shown(panel.title)));
  const whole = element("figure", { class: "panel" }, caption);
  whole.dataset.quantities = JSON.stringify(panel.quantities);
  const points = panel.quantities.flatMap((quantity) => series.get(quantity));
  if (new Set(points.map((row) => row.depth)).size < 2) {
    const items = points.map((row) =>
      element("div", {}, element("dt", {}, `${shown(row.quantity)} at ${shown(row.site)}`), element("dd", {}, measured(row)))
    );
    whole.append(element("dl", { class: "tiles" }, ...items));
    return { panel, whole, plot: null };
  }
  const canvas = element("canvas", { class: "plot", tabindex: "0", role: "img", "aria-label": summary(panel, series) });
  caption.append(legend(panel));
  whole.append(canvas);
  const draw = (one) => drawPanel(one, panel, series);
  return { panel, whole, plot: plotOn(canvas, { draw, open: (spot) => choose(spot.depth), look: lookAt, whole: wholeDepth }) };
}

const stage = { key: null, panels: [] };

// Panels are made anew for another view or form only; all else is drawn into those there are.
function stagePanels(series) {
  const key = JSON.stringify([state.view, state.form[state.view]]);
  if (stage.key === key) return;
  stage.key = key;
  byId("tip").hidden = true;
  stage.panels = panelsOf(series).map((panel) => figure(panel, series));
  const last = stage.panels.length - 1;
  if (last > 0 && last % 2 === 1) stage.panels[last].whole.classList.add("wide");
  const none = element("p", { class: "empty" }, "Nothing was measured here.");
  byId("panels").replaceChildren(...(last < 0 ? [none] : stage.panels.map(({ whole }) => whole)));
}

function drawCurves() {
  stagePanels(seriesOf(state.view, state.form[state.view]));
  const drawn = stage.panels.filter(({ plot }) => plot);
  for (const { panel, whole } of drawn) whole.querySelector(".legend").replaceWith(legend(panel));
  for (const { plot } of drawn) plot.draw();
}

function drawControls() {
  const tabs = DRAWN.map((view) =>
    element("button", { type: "button", "aria-pressed": String(view === state.view), "data-view": view, onclick: () => show(view) }, titled(view))
  );
  byId("views").replaceChildren(...tabs);
  const forms = state.view ? formsOf(state.view) : [];
  byId("form-label").hidden = forms.length < 2;
  byId("form-label").style.display = forms.length < 2 ? "none" : "";
  const options = forms.map((form) => element("option", { value: form }, shown(form)));
  byId("form").replaceChildren(...options);
  byId("form").value = state.form[state.view];
}

function show(view, form) {
  state.view = view;
  if (form !== undefined) state.form[view] = form;
  drawControls();
  drawCurves();
  byId("views").querySelector(`[data-view="${view}"]`).focus({ preventScroll: true });
}
