// One layer: its singular values and its readings.

function choose(depth) {
  state.depth = depth;
  byId("site").value = String(depth);
  drawCurves();
  drawLayer();
}

function sitesOf(depth) {
  const layer = layerAt.get(depth);
  return layer ? [layer.site, ...layer.parameters] : (byDepth.get(depth) || []).map((r) => r.site);
}

function spectrumTrace(spectrum, index) {
  const most = number(spectrum.sigma[0]) || 1;
  const values = spectrum.sigma.map((v) => number(v) / (state.relative ? most : 1));
  const title = `${label(shortened(spectrum.site, 40))}, ${label(spectrum.view)} ${label(spectrum.form)}`;
  return {
    type: "scatter",
    mode: spectrum.sigma.length > 80 ? "lines" : "lines+markers",
    name: title,
    x: spectrum.at,
    y: values,
    hoverinfo: "text",
    hovertext: spectrum.at.map((i, k) => `${title}<br>value ${i} of ${spectrum.count}: ${compact(number(spectrum.sigma[k]))}`),
    line: { color: tone(index), width: 2 },
    marker: { color: tone(index), size: 5, symbol: SYMBOLS[index % SYMBOLS.length] },
  };
}

function drawSpectrum(depth) {
  const sites = new Set(sitesOf(depth));
  const spectra = data.spectra.filter((s) => sites.has(s.site));
  const traces = spectra.map(spectrumTrace).filter((trace) => trace.y.length > 0);
  const values = traces.flatMap((trace) => trace.y);
  const most = Math.max(...values, 0);
  const log = spansDecades(values);
  // Below 1e-18 of the largest there is rounding only: it would flatten the rest.
  const y = scale(log, values.filter((v) => v > 1e-18 * most));
  const legend = { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } };
  const title = state.relative ? "singular value / largest" : "singular value";
  const margin = { l: 84, r: 14, t: 60, b: 44 }; // room for the legend above
  const layout = frame(axis("index"), axis(title, y), { showlegend: true, legend, margin });
  Plotly.react(byId("spectrum"), traces, layout, CONFIG);
  const notes = spectra.map((s) => {
    const zeros = s.zeros > 0 ? `, ${s.zeros} of them zero` : "";
    const thinned = s.at.length < s.count ? `, ${s.at.length} drawn` : "";
    return `${shown(s.view)} ${shown(s.form)}: ${s.shape.join(" × ")}, ${plural(s.count, "value")}${zeros}${thinned}`;
  });
  byId("spectrum-note").textContent = notes.join(" · ") || "No spectrum was kept for this layer.";
}

function drawHere(depth) {
  const body = element("tbody");
  let group = "";
  for (const row of byDepth.get(depth) || []) {
    const title = [row.site, row.view, row.form].map(shown).filter(Boolean).join(" · ");
    if (title !== group) {
      body.append(element("tr", { class: "group" }, element("td", { colspan: "2" }, title)));
      group = title;
    }
    const value = element("td", { class: "n", title: [row.how, chance(row.risk)].filter(Boolean).join("; ") }, measured(row));
    body.append(element("tr", {}, element("td", {}, shown(row.quantity)), value));
  }
  byId("here").replaceChildren(body);
}

function drawLayer() {
  if (state.depth === null) return;
  const at = DEPTHS.indexOf(state.depth);
  byId("previous").disabled = at <= 0;
  byId("next").disabled = at >= DEPTHS.length - 1;
  drawSpectrum(state.depth);
  drawHere(state.depth);
}

function fillLayers() {
  const options = DEPTHS.map((depth) => {
    const layer = layerAt.get(depth);
    const kind = layer ? ` · ${shown(layer.kind)}` : "";
    return element("option", { value: String(depth) }, `${depth} · ${shortened(siteAt(depth), 60)}${kind}`);
  });
  byId("site").replaceChildren(...options);
  byId("site").addEventListener("change", (event) => choose(Number(event.target.value)));
  const step = (by) => () => choose(DEPTHS[DEPTHS.indexOf(state.depth) + by]);
  byId("previous").addEventListener("click", step(-1));
  byId("next").addEventListener("click", step(1));
  byId("relative").addEventListener("change", (event) => {
    state.relative = event.target.checked;
    drawLayer();
  });
}
