// What each picture of the landscape page shows.

const data = JSON.parse(byId("data").textContent);
const legend = { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } };
const roomy = { l: 70, r: 14, t: 60, b: 60 };

function line(name, x, y, index, more = {}) {
  return {
    type: "scatter",
    mode: "lines+markers",
    name: label(shortened(name, 40)),
    x,
    y,
    line: { color: tone(index), width: 2 },
    marker: { color: tone(index), size: 6, symbol: SYMBOLS[index % SYMBOLS.length] },
    ...more,
  };
}

// Variants that differ in the strength of a skip connection are told apart by it alone.
function variantNames() {
  return data.variants.map((v) => label(v.rho ? `ρ = ${v.rho}` : v.says));
}

function drawConditions() {
  const layers = data.variants[0].layers;
  const sites = layers.map((layer) => label(shortened(layer.site, 24)));
  const kinds = ["condition", "layer_factor", "data_factor"];
  const traces = kinds.map((kind, i) =>
    line(data.columns[i][0], sites, layers.map((layer) => number(layer[kind].value)), i)
  );
  const values = traces.flatMap((trace) => trace.y);
  const layout = frame(axis("", { type: "category" }), axis("κ", scale(true, values)), {
    showlegend: true,
    legend,
    margin: { ...roomy, b: 90 },
  });
  Plotly.react(byId("conditions"), traces, layout, CONFIG);
}

function drawCompared() {
  const sites = data.variants[0].layers.map((layer) => layer.site);
  const names = variantNames();
  const at = (variant, site) => variant.layers.find((layer) => layer.site === site);
  const traces = sites.map((site, i) => {
    const values = data.variants.map((v) => (at(v, site) ? number(at(v, site).condition.value) : null));
    return line(site, names, values, i);
  });
  const values = traces.flatMap((trace) => trace.y).filter((v) => v !== null);
  const layout = frame(axis("", { type: "category" }), axis("κ", scale(true, values)), {
    showlegend: sites.length <= 12,
    legend,
    margin: roomy,
  });
  Plotly.react(byId("compared"), traces, layout, CONFIG);
}

function drawTrajectories(site) {
  const there = data.variants.map((v) => v.layers.find((layer) => layer.site === site)).map((l) => l && l.axes);
  const names = variantNames();
  const most = Math.max(...there.map((axes) => (axes ? axes.sigma.length : 0)));
  const traces = [];
  for (let k = 0; k < most; k += 1) {
    const y = there.map((axes) => (axes && k < axes.sigma.length ? number(axes.sigma[k]) : null));
    const order = there.find((axes) => axes && k < axes.at.length).at[k];
    traces.push(line(`σ ${order}`, names, y, 0, { mode: "lines", line: { color: faded(tone(0), 0.35), width: 1 } }));
  }
  const values = traces.flatMap((trace) => trace.y).filter((v) => v > 0);
  const top = Math.max(...values);
  const floor = data.variants[0].layers.find((layer) => layer.site === site).floor; // below: rounding
  const layout = frame(
    axis("", { type: "category" }),
    axis("singular value", scale(true, values.filter((v) => v > top / floor))),
    { margin: { ...roomy, t: 14 } }
  );
  Plotly.react(byId("trajectories"), traces, layout, CONFIG);
}

function drawDensity() {
  const traces = [];
  data.curvature.parts.forEach((part, i) => {
    const d = part.density;
    const band = { type: "scatter", mode: "lines", x: d.at, line: { width: 0, shape: "hv" }, hoverinfo: "skip", showlegend: false };
    traces.push({ ...band, y: d.low });
    traces.push({ ...band, y: d.high, fill: "tonexty", fillcolor: faded(tone(i), 0.18) });
    traces.push(line(part.site, d.at, d.below, i, { mode: "lines", line: { color: tone(i), width: 2, shape: "hv" } }));
  });
  const layout = frame(axis("eigenvalue", { exponentformat: "power" }), axis("share", { range: [-0.03, 1.03] }), {
    showlegend: data.curvature.parts.length > 1,
    legend,
    margin: { ...roomy, t: 30 },
  });
  Plotly.react(byId("density"), traces, layout, CONFIG);
}

function drawSlice() {
  const s = data.surface;
  const log = byId("surface-log").checked;
  const value = (cell) => {
    const v = number(cell);
    return Number.isFinite(v) && (!log || v > 0) ? (log ? Math.log10(v) : v) : null;
  };
  const z = s.losses.map((row) => row.map(value));
  const title = log ? "log₁₀ loss" : "loss";
  const place = byId("slice");
  if (!s.along) {
    const layout = frame(axis(label(s.across)), axis(title), { margin: roomy });
    return Plotly.react(place, [line("loss", s.xs, z[0], 0)], layout, CONFIG);
  }
  const bar = { title: { text: title }, outlinewidth: 0, thickness: 14 };
  const shared = { x: s.xs, y: s.ys, z, colorscale: "Viridis", colorbar: bar };
  if (byId("relief").checked) {
    const scene = {
      xaxis: axis(label(s.across)),
      yaxis: axis(label(s.along)),
      zaxis: axis(title),
      camera: { eye: { x: 1.5, y: -1.5, z: 0.9 } },
    };
    return Plotly.react(place, [{ type: "surface", ...shared }], frame({}, {}, { scene, margin: { l: 0, r: 0, t: 0, b: 0 } }), CONFIG);
  }
  const here = { type: "scatter", mode: "markers", x: [0], y: [0], marker: { color: "#fff", size: 9, symbol: "x" }, name: "the model", hoverinfo: "name" };
  const layout = frame(axis(label(s.across), { constrain: "domain" }), axis(label(s.along), { scaleanchor: "x", constrain: "domain" }), { margin: roomy });
  return Plotly.react(place, [{ type: "contour", ncontours: 24, ...shared }, here], layout, CONFIG);
}

// Polygons of one prediction, drawn as one shape with gaps.
function patches(members, tint, name) {
  const x = [];
  const y = [];
  for (const corners of members) {
    for (let i = 0; i < corners.length; i += 2) {
      x.push(corners[i]);
      y.push(corners[i + 1]);
    }
    x.push(corners[0], null);
    y.push(corners[1], null);
  }
  return { type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: tint, line: { width: 0 }, name, hoverinfo: "name" };
}

function drawMap() {
  const r = data.regions;
  const traces = [];
  if (byId("fills").checked) {
    const kinds = [...new Set(r.classes)].sort((a, b) => a - b);
    kinds.forEach((kind, i) => {
      for (let shade = 0; shade < 3; shade += 1) {
        const members = r.polygons.filter((_, j) => r.classes[j] === kind && j % 3 === shade);
        const hue = (360 * i) / kinds.length;
        if (members.length > 0) traces.push({ ...patches(members, `hsla(${hue}, 55%, ${48 + 9 * shade}%, 0.75)`, `prediction ${kind}`), legendgroup: String(kind), showlegend: shade === 0 });
      }
    });
  }
  if (byId("edges").checked) {
    const last = Math.max(...r.by, 0);
    for (let k = last; k >= 0; k -= 1) {
      const mine = r.cuts.filter((_, j) => r.by[j] === k);
      const x = mine.flatMap((c) => [c[0], c[2], null]);
      const y = mine.flatMap((c) => [c[1], c[3], null]);
      const width = 2.2 - (1.6 * k) / Math.max(last, 1);
      traces.push({ type: "scatter", mode: "lines", x, y, line: { color: tone(k), width }, name: `activation ${k + 1}`, hoverinfo: "skip" });
    }
  }
  const at = r.at;
  traces.push({
    type: "scatter", mode: "markers+text", x: at.map((p) => p[0]), y: at.map((p) => p[1]),
    text: r.samples.map((i) => `sample ${i}`), textposition: "top center",
    textfont: { color: colour("ink") }, name: "samples", showlegend: false,
    marker: { color: colour("ink"), size: 8, symbol: "x" }, hoverinfo: "text",
  });
  const range = [-1, 1];
  const layout = frame(axis("", { range, constrain: "domain" }), axis("", { range, scaleanchor: "x", constrain: "domain" }), { showlegend: true, legend, margin: { ...roomy, l: 40, b: 40 } });
  Plotly.react(byId("map"), traces, layout, CONFIG);
}
