// Curves over depth: one panel for each unit, with intervals, bounds, findings and the layer chosen.

function hover(row) {
  const layer = layerAt.get(row.depth);
  const kind = layer ? ` (${label(layer.kind)})` : "";
  const lines = [
    `<b>${label(shortened(row.site, 60))}</b>${kind}`,
    `${label(row.quantity)}: ${measured(row)}`,
    label(row.how),
    chance(row.risk),
  ];
  return lines.filter(Boolean).join("<br>");
}

function line(points, index) {
  return {
    type: "scatter",
    mode: points.length > MANY ? "lines" : "lines+markers",
    x: points.map((row) => row.depth),
    y: points.map((row) => row.value),
    customdata: points.map((row) => row.depth),
    hoverinfo: "text",
    hovertext: points.map(hover),
    line: { color: tone(index), width: 2 },
    marker: { color: tone(index), size: 6, symbol: SYMBOLS[index % SYMBOLS.length] },
  };
}

// An end that is not known reaches over the edge of the plot.
function band(points, index, log) {
  const values = points.map((row) => row.value).filter((v) => Number.isFinite(v) && v > 0);
  const floor = log ? Math.min(...values) / 1e3 : -Number.MAX_VALUE;
  const roof = Math.max(...points.map((row) => Math.abs(row.value))) * 1e3;
  const low = points.map((row) => Math.max(row.low, Math.max(floor, -roof)));
  const high = points.map((row) => Math.min(row.high, roof));
  const depth = points.map((row) => row.depth);
  return {
    type: "scatter",
    mode: "lines",
    x: [...depth, ...depth.toReversed()],
    y: [...high, ...low.toReversed()],
    fill: "toself",
    fillcolor: faded(tone(index), 0.16),
    line: { width: 0 },
    hoverinfo: "skip",
  };
}

function boundsFor(view, form, quantity) {
  const curve = [view, form, quantity];
  return data.bounds.filter((bound) => bound.curve.every((part, i) => part === curve[i]));
}

function boundTraces(bound, index) {
  const places = new Map(rows.map((row) => [row.site, row.depth]));
  const points = bound.site
    .map((site, i) => ({ site, x: places.get(site), y: number(bound.limit[i]), verdict: bound.verdict[i] }))
    .filter((point) => point.x !== null && point.x !== undefined)
    .sort((a, b) => a.x - b.x);
  const said = (p) =>
    `<b>${label(shortened(p.site, 60))}</b><br>${label(bound.theorem)}: ${bound.sense} ` +
    `${p.y === null ? "" : compact(p.y)}<br>${label(bound.statement)}<br>${p.verdict}`;
  const common = { type: "scatter", hoverinfo: "text" };
  const failed = points.filter((point) => point.verdict === "violated");
  const draw = (chosen, more) => ({
    ...common,
    x: chosen.map((p) => p.x),
    y: chosen.map((p) => p.y),
    customdata: chosen.map((p) => p.x),
    hovertext: chosen.map(said),
    ...more,
  });
  // Where the theorem does not apply there is no bound, and no line across.
  const apart = points.flatMap((p, i) => {
    const next = i > 0 && DEPTHS.indexOf(p.x) - DEPTHS.indexOf(points[i - 1].x) > 1;
    return next ? [{ ...p, y: null }, p] : [p];
  });
  const marker = { color: tone(index), size: 9, symbol: "line-ew-open", line: { width: 2 } };
  return [
    draw(apart, { mode: points.length > MANY ? "lines" : "lines+markers", marker, line: { color: tone(index), width: 3, dash: "8px,5px" } }),
    draw(failed, { mode: "markers", marker: { color: colour("error"), size: 12, symbol: "x" } }),
  ];
}

// Where each finding that rests on this panel begins, and the layer that is chosen.
function marks(panel) {
  const rests = (finding) =>
    finding.depth !== null &&
    finding.evidence.some((r) => r.view === state.view && panel.quantities.includes(r.quantity));
  const found = data.findings.filter(rests);
  const upright = (x, line) => ({ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line, layer: "below" });
  const shapes = found.map((f) => upright(f.depth, { color: colour(f.severity), width: 1.5, dash: "dot" }));
  if (state.depth !== null) shapes.push(upright(state.depth, { color: faded(colour("accent"), 0.25), width: 6 }));
  const late = (depth) => depth - DEPTHS[0] > 0.65 * (DEPTHS[DEPTHS.length - 1] - DEPTHS[0]);
  const annotations = found.map((f, i) => ({
    x: f.depth, y: 1, yref: "paper", yanchor: "bottom", yshift: 16 * i,
    xanchor: late(f.depth) ? "right" : "left", xshift: late(f.depth) ? -4 : 4,
    text: label(shortened(f.name, 40)), showarrow: false, font: { color: colour(f.severity), size: 12 },
  }));
  return { shapes, annotations, margin: { ...MARGIN, t: MARGIN.t + 16 * found.length } };
}

function drawPanel(panel, series, place, wide) {
  const drawn = panel.quantities.filter((q) => !state.hidden.has(`${state.view}|${q}`));
  const points = drawn.flatMap((quantity) => series.get(quantity));
  const log = state.log && spansDecades(points.map((row) => row.value));
  const traces = drawn.flatMap((quantity) => {
    const index = panel.quantities.indexOf(quantity);
    const curve = series.get(quantity);
    const bands = curve.some(matters) ? [band(curve, index, log)] : [];
    const bounds = state.bounds ? boundsFor(state.view, state.form[state.view], quantity) : [];
    return [...bands, line(curve, index), ...bounds.flatMap((bound) => boundTraces(bound, index))];
  });
  const last = DEPTHS[DEPTHS.length - 1];
  const x = axis(wide ? "depth of the layer" : "", { range: [DEPTHS[0] - 0.6, last + 0.6] });
  const y = axis("", scale(log, points.map((row) => row.value)));
  place.drawn = Plotly.react(place, traces, frame(x, y, marks(panel)), CONFIG).then(() => {
    place.removeAllListeners("plotly_click");
    place.on("plotly_click", (event) => choose(event.points[0].customdata));
  });
}

function summary(panel, series) {
  const said = panel.quantities.map((quantity) => {
    const curve = series.get(quantity);
    const ends = [curve[0], curve[curve.length - 1]].map((row) => compact(row.value));
    return `${quantity} from ${ends[0]} at the first layer to ${ends[1]} at the last`;
  });
  return `Curves over depth: ${said.join("; ")}.`;
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
    button.style.setProperty("--tone", `var(--c${index % 7})`);
    return button;
  });
  const notes = panel.quantities.flatMap((quantity, index) =>
    boundsFor(state.view, state.form[state.view], quantity).map((bound) => {
      const said = `${shown(quantity)} is ${bound.sense} this (${shown(bound.theorem)})`;
      const note = element("span", { class: "bound" }, said);
      note.style.setProperty("--tone", `var(--c${index % 7})`);
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
    return { whole, place: null };
  }
  const place = element("div", { class: "plot", role: "img", "aria-label": summary(panel, series) });
  caption.append(legend(panel));
  whole.append(place);
  return { whole, place };
}

const stage = { key: null, panels: [] };

// Panels are made anew for another view or form only; all else is drawn into those there are.
function stagePanels(series) {
  const key = JSON.stringify([state.view, state.form[state.view]]);
  if (stage.key === key) return;
  const old = stage.panels;
  stage.key = key;
  stage.panels = panelsOf(series).map((panel) => ({ panel, ...figure(panel, series) }));
  const last = stage.panels.length - 1;
  if (last > 0 && last % 2 === 1) stage.panels[last].whole.classList.add("wide");
  const none = element("p", { class: "empty" }, "Nothing was measured here.");
  byId("panels").replaceChildren(...(last < 0 ? [none] : stage.panels.map(({ whole }) => whole)));
  // A plot must not be taken down while it is still being drawn.
  for (const { place } of old) if (place) place.drawn.then(() => Plotly.purge(place));
}

function drawCurves() {
  const series = seriesOf(state.view, state.form[state.view]);
  stagePanels(series);
  for (const { panel, place, whole } of stage.panels) {
    if (!place) continue;
    whole.querySelector(".legend").replaceWith(legend(panel));
    drawPanel(panel, series, place, getComputedStyle(whole).gridColumnEnd === "-1");
  }
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
