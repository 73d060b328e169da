// One layer: its singular values and its readings.

const spectrum = new Chart(byId("spectrum"), specOfSpectra, {
  look: (range) => {
    spectrum.range = range;
    spectrum.draw();
  },
  whole: () => {
    const last = Math.max(2, ...spectrum.spectra.map(({ count }) => count));
    const room = Math.max(0.3, 0.02 * last);
    return { low: 1 - room, high: last + room };
  },
});
Object.assign(spectrum, { spectra: [], range: null });

// The spectra of a layer, unpacked.
function spectraOf(depth) {
  const own = LAYERS.find((layer) => layer.depth === depth).spectra.map((i) => data.spectra[i]);
  return own.map(([place, view, form, shape, count, zeros, text]) => {
    const title = `${shortened(SITES[place], 40)}, ${view} ${form}`;
    const values = valuesOf(text, count);
    const none = zeros > 0 ? `, ${zeros} of them zero` : "";
    const thinned = values.sigma.length < count ? `, ${values.sigma.length} drawn` : "";
    const size = `${shape.join(" × ")}, ${plural(count, "value")}`;
    return { title, note: `${view} ${form}: ${size}${none}${thinned}`, ...values };
  });
}

function specOfSpectra() {
  const marks = spectrum.spectra.map((one, index) => {
    const most = state.relative ? one.sigma[0] : 1;
    const looks = { colour: tone(index), shape: index % INKS };
    return spectrumMark(one, { ...looks, y: one.sigma.map((value) => value / most) });
  });
  const title = state.relative ? "singular value / largest" : "singular value";
  const x = { ...(spectrum.range || spectrum.whole()), whole: true, title: "index" };
  // below 1e-18 of the largest there is rounding only: it would flatten the rest
  return { x, y: { log: "auto", floor: 1e-18, title }, marks };
}

// What was read here, under a title wherever the site, the view or the form is another.
function fillReadings(depth) {
  const title = (row) => [row.site, row.view, row.form].filter(Boolean).join(" · ");
  const lines = rows.filter((row) => row.depth === depth).flatMap((row, i, all) => {
    const how = [row.how, chance(row.risk)].filter(Boolean).join("; ");
    const value = element("td", { class: "n", title: how }, measured(row));
    const line = element("tr", {}, element("td", {}, row.quantity), value);
    if (i > 0 && title(row) === title(all[i - 1])) return [line];
    return [element("tr", { class: "group" }, element("td", { colspan: "2" }, title(row))), line];
  });
  byId("here").replaceChildren(element("tbody", {}, ...lines));
}

function choose(depth) {
  const at = LAYERS.findIndex((layer) => layer.depth === depth);
  state.depth = depth;
  byId("site").selectedIndex = at;
  byId("previous").disabled = at <= 0;
  byId("next").disabled = at >= LAYERS.length - 1;
  if (at < 0) return;
  Object.assign(spectrum, { spectra: spectraOf(depth), range: null });
  const keys = spectrum.spectra.map(({ title }, index) => {
    return element("span", { class: "line", style: `--tone: var(--c${index % INKS})` }, title);
  });
  const notes = spectrum.spectra.map(({ note }) => note).join(" · ");
  byId("spectrum-keys").replaceChildren(...keys);
  byId("spectrum-note").textContent = notes || "No spectrum was kept for this layer.";
  fillReadings(depth);
  spectrum.draw();
  drawCurves();
}
