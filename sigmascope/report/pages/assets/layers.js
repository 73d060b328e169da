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

// The spectra of a layer, unpacked; those without a scale have no values to draw.
function spectraOf(depth) {
  const sites = new Set(sitesOf(depth));
  const own = data.spectra.filter(([place]) => sites.has(SITES[place]));
  return own.map(([place, view, form, shape, count, zeros, text], index) => {
    const title = `${shortened(SITES[place], 40)}, ${shown(view)} ${shown(form)}`;
    const values = text === null ? { sigma: [], at: [] } : valuesOf(text, count);
    return { title, view, form, shape, count, zeros, index, ...values };
  });
}

function drawSpectrum(one) {
  const drawn = one.spectra.map((s) => {
    const most = state.relative ? s.sigma[0] : 1;
    const says = (k) => () => [s.title, `value ${s.at[k] + 1} of ${s.count}: ${compact(s.sigma[k])}`];
    return s.sigma.map((v, k) => ({ x: s.at[k] + 1, y: v / most, says: says(k) }));
  });
  const values = drawn.flat().map((p) => p.y);
  const top = extent(values)[1];
  const log = spansDecades(values);
  // Below 1e-18 of the largest there is rounding only: it would flatten the rest.
  const y = ends(log ? values.filter((v) => v > 1e-18 * top) : values, log);
  const title = state.relative ? "singular value / largest" : "singular value";
  const axes = chart(one.canvas, { ...(one.range || one.whole()), whole: true, title: "index" }, { ...y, title });
  one.spots = [];
  within(axes, () => {
    drawn.forEach((points, i) => one.spots.push(...curve(axes, points, one.spectra[i].index, { single: points.length <= 80 })));
  });
  one.spots.sort((a, b) => a.x - b.x || a.y - b.y);
  return axes;
}

const spectrum = plotOn(byId("spectrum"), {
  draw: drawSpectrum,
  open: () => {},
  look: (range) => {
    spectrum.range = range;
    spectrum.draw();
  },
  whole: () => {
    const last = Math.max(2, ...spectrum.spectra.map((s) => s.count));
    const room = Math.max(0.3, 0.02 * last);
    return { low: 1 - room, high: last + room };
  },
});
Object.assign(spectrum, { spectra: [], range: null });

function fillSpectrum(depth) {
  Object.assign(spectrum, { spectra: spectraOf(depth), range: null });
  const keys = spectrum.spectra.map((s) => {
    const key = element("span", { class: "line" }, s.title);
    key.style.setProperty("--tone", `var(${INKS[s.index % INKS.length]})`);
    return key;
  });
  byId("spectrum-keys").replaceChildren(...keys);
  const notes = spectrum.spectra.map((s) => {
    const zeros = s.zeros > 0 ? `, ${s.zeros} of them zero` : "";
    const thinned = s.sigma.length < s.count ? `, ${s.sigma.length} drawn` : "";
    return `${shown(s.view)} ${shown(s.form)}: ${s.shape.join(" × ")}, ${plural(s.count, "value")}${zeros}${thinned}`;
  });
  byId("spectrum-note").textContent = notes.join(" · ") || "No spectrum was kept for this layer.";
  spectrum.draw();
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
  fillSpectrum(state.depth);
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
