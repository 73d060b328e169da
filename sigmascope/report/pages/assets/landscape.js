// The words, the tables, the theme, and the order in which all is drawn.

const cell = (e) => element("td", { class: "n", title: [e.how, chance(e.risk)].filter(Boolean).join("; ") }, estimate(e));

function fillTable() {
  const head = element("tr", {}, element("th", {}, "layer"), ...data.columns.map(([title]) => element("th", { class: "n" }, title)));
  const rows = data.variants[0].layers.map((layer) =>
    element("tr", {}, element("td", {}, named(layer.site)), ...data.columns.map(([, name]) => cell(layer[name])))
  );
  const left = data.variants[0].skipped.map((s) =>
    element("tr", {}, element("td", {}, named(s.site)), element("td", { colspan: String(data.columns.length) }, `not measured: ${shown(s.why)}`))
  );
  byId("table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows, ...left));
  byId("columns").textContent = data.columns.map(([title, , says]) => `${title}: ${says}`).join(" · ");
}

function fillBends() {
  const heads = ["weights of", "number", "largest", "smallest", "trace", "Frobenius norm", "upwards", "downwards"];
  const names = ["top", "bottom", "trace", "frobenius", "upwards", "downwards"];
  const head = element("tr", {}, ...heads.map((title, i) => element("th", i ? { class: "n" } : {}, title)));
  const rows = data.curvature.parts.map((part) =>
    element("tr", {}, element("td", {}, named(part.site)), element("td", { class: "n" }, String(part.parameters)), ...names.map((name) => cell(part[name])))
  );
  byId("bends").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  byId("curvature-title").textContent = `Curvature: ${shown(data.curvature.title)}`;
}

function fillWords() {
  const list = element("dl");
  for (const [key, value] of Object.entries(data.about)) list.append(element("dt", {}, shown(key)), element("dd", {}, shown(value)));
  byId("words").replaceChildren(list);
  byId("model").textContent = shown(data.about.name || "Landscape");
  byId("summary").textContent = `How well conditioned learning is under ${shown(data.loss)}, layer by layer.`;
  if (data.surface) byId("surface-says").textContent = `Loss on ${shown(data.surface.says)}.`;
  if (data.regions) {
    const counts = data.regions.counts.join(", ");
    byId("regions-says").textContent = `The plane through three samples meets ${plural(data.regions.polygons.length, "region")}; after each activation: ${counts || "none bends it"}.`;
  }
}

function hide(id) {
  byId(id).remove();
  document.querySelector(`.links a[href="#${id}"]`).remove();
}

const drawings = [drawConditions];

function fillVariants() {
  const sites = data.variants[0].layers.map((layer) => layer.site);
  byId("site").replaceChildren(...sites.map((site) => element("option", { value: site }, shown(site))));
  byId("site").addEventListener("change", () => drawTrajectories(byId("site").value));
  drawings.push(drawCompared, () => drawTrajectories(byId("site").value));
}

function wire(draw, ...ids) {
  for (const id of ids) byId(id).addEventListener("change", draw);
  drawings.push(draw);
}

fillTable();
fillWords();
if (data.variants.length > 1 && data.variants[0].layers.length > 0) fillVariants();
else hide("variants");
if (data.curvature) {
  fillBends();
  drawings.push(drawDensity);
} else hide("curvature");
if (data.surface) {
  if (!data.surface.along) byId("relief-label").remove();
  wire(drawSlice, "surface-log", ...(data.surface.along ? ["relief"] : []));
} else hide("surface");
if (data.regions) wire(drawMap, "fills", "edges");
else hide("regions");
withPlotly(() => follow(() => drawings.forEach((draw) => draw())));
