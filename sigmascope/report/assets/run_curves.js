// Curves over steps: the loss, and one quantity at the layers chosen, of one run or two; and a map
// of that quantity at every layer, one for each run.

const FEW = 7; // lines that have a colour each; more are shaded by their place in the model

// Within what is legible on the card: yellow is not on white, nor violet on black.
function coloursOf(sites) {
  const dark = document.documentElement.dataset.theme === "dark";
  const at = (i) => (dark ? 0.28 + 0.72 * i : 0.82 * i);
  const many = sites.length > FEW;
  const colour = (i) => (many ? shade(at(i / (sites.length - 1))) : tone(i));
  return new Map(sites.map((site, i) => [site, colour(i)]));
}

// The lines of a panel, of one run, each with its looks.
function linesOf(track, key, looks) {
  const panel = there("panels").get(key);
  return [...track.of(key).lines.values()].map((line) => {
    const how = { kind: "line", says: sayOf(line, track, panel), width: 1.75 };
    return { ...line, ...how, ...looks(line) };
  });
}

// The keys of the loss, and of its means over blocks of steps, which leave out no step.
function lossKeys() {
  const losses = [...there("panels").values()].filter(({ quantity }) => quantity === "loss");
  const formed = (form) => losses.find((panel) => panel.form === form)?.key;
  return { single: formed("") ?? losses[0]?.key, means: formed("mean of steps") };
}

// Single losses are dots beside their means, for what lies between them was another; alone they
// are a curve.
function lossMarks() {
  const { single, means } = lossKeys();
  return tracks.flatMap((track) => {
    const colour = tone(track.index);
    const drawn = means === single ? [] : linesOf(track, means, () => ({ colour, dots: false }));
    return [...drawn, ...linesOf(track, single, () => ({ colour, joined: drawn.length === 0 }))];
  });
}

// Places at which the quantity chosen was read, by any run.
function sitesHere() {
  return inOrder(tracks.flatMap((track) => [...track.of(state.key).lines.keys()]));
}

function sitesShown() {
  return sitesHere().filter((site) => state.chosen === null || state.chosen.has(site));
}

function curveMarks() {
  const colours = coloursOf(sitesShown());
  const many = colours.size > FEW; // of width 1 many lines are drawn four times as fast
  return tracks.flatMap((track) => {
    const looks = { dash: track.index ? [5, 4] : [], dots: !many, width: many ? 1 : 1.75 };
    const toned = ({ site }) => ({ ...looks, colour: colours.get(site) });
    return linesOf(track, state.key, toned).filter(({ colour }) => colour);
  });
}

// The axes, where alarms begin, intervals and lines.
function specOfLines(lines, { log, title, about = () => true }) {
  const begins = tracks.flatMap(({ state: { alarms }, index }) =>
    alarms.filter(about).map(({ begin, severity }) => {
      const how = { colour: ink(`--${severity}`), dash: [2, 3], alpha: index ? 0.5 : 0.9 };
      return { kind: "uprights", x: [begin], ...how };
    }),
  );
  const wide = ({ y, low, high }) =>
    y.some((value, i) => matters({ value, low: low[i], high: high[i] }));
  const bands = lines.length > FEW ? [] : lines.filter(wide);
  const areas = bands.map(({ x, low, high, colour }) => {
    return { kind: "band", x, low, high, colour, alpha: 0.16 };
  });
  const none = log === true ? "nothing above zero in sight" : "nothing in sight";
  const empty = lines.length === 0 ? "nothing was read here yet" : none;
  const marks = [...(state.marks ? begins : []), ...areas, ...lines];
  return { x: steps(), y: { log, title }, marks, empty };
}

// All charts look at the same steps.
function lookAt(range) {
  state.range = range;
  byId("whole").hidden = range === null;
  drawOverSteps();
}

function specOfCurve() {
  const { quantity, unit } = there("panels").get(state.key);
  const about = ({ evidence }) =>
    evidence.length === 0 || evidence.some((r) => r.quantity === quantity);
  return specOfLines(curveMarks(), { log: state.log, title: unit, about });
}

const looks = { look: lookAt, whole: wholeSteps };
const lossChart = new Chart(byId("loss"), () => specOfLines(lossMarks(), { log: "auto" }), looks);
const curveChart = new Chart(byId("curve"), specOfCurve, {
  ...looks,
  open: ({ mark, i }) => openSite(mark.site, mark.x[i]),
});

function keyLine(words, colour, dashed) {
  const looks = { class: dashed ? "line dashed" : "line", style: `--tone: ${colour}` };
  return element("span", looks, words);
}

function scaleKey(first, last, colours) {
  const style = `background: linear-gradient(to right, ${colours.join(", ")})`;
  return element("span", { class: "scale" }, first, element("i", { style }), last);
}

function fillKeys() {
  const colours = [...coloursOf(sitesShown())];
  const room = document.documentElement.clientWidth < 500 ? 12 : 24;
  const ends = () => [colours[0], colours.at(-1)].map(([site]) => shortened(site, room));
  const places =
    colours.length > FEW
      ? [scaleKey(...ends(), colours.map(([, colour]) => colour))]
      : colours.map(([site, colour]) => keyLine(shortened(site, 32), colour));
  const runs = (colour) =>
    several ? tracks.map((track) => keyLine(track.name, ...colour(track.index))) : [];
  byId("keys").replaceChildren(...places, ...runs((i) => ["var(--soft)", i > 0]));
  byId("loss-keys").replaceChildren(...runs((i) => [`var(--c${i})`]));
}

function drawCurves() {
  const panel = there("panels").get(state.key);
  byId("loss-figure").hidden = lossMarks().length === 0;
  byId("curve-figure").hidden = !panel;
  lossChart.draw();
  if (!panel) return;
  fillKeys();
  byId("curve-title").textContent = panel.title;
  const values = state.log ? curveMarks().flatMap(({ y }) => y) : [];
  const below = values.filter((v) => v <= 0).length;
  const words = `not above zero ${below === 1 ? "has" : "have"} no place on a log scale.`;
  byId("nothing").hidden = below === 0;
  byId("nothing").textContent = `${plural(below, "reading")} ${words}`;
  curveChart.draw();
}

// Boxes for the layers that the filter finds.
function fillBoxes() {
  const [here, holds] = [sitesHere(), search("filter")];
  const boxes = here.filter((site) => holds(site.toLowerCase())).map((site) => {
    const box = element("input", { type: "checkbox", onchange: () => toggleSite(site) });
    box.checked = state.chosen === null || state.chosen.has(site);
    return element("label", {}, box, named(shortened(site, 48)));
  });
  byId("boxes").replaceChildren(...boxes);
  const count = sitesShown().length;
  const of = count === here.length ? `all ${count}` : `${count} of ${here.length}`;
  byId("chosen").textContent = `Layers: ${of}`;
}

function toggleSite(site) {
  const chosen = state.chosen ?? new Set(sitesHere());
  if (!chosen.delete(site)) chosen.add(site);
  chooseSites(chosen);
}

function chooseSites(chosen) {
  state.chosen = chosen && sitesHere().every((site) => chosen.has(site)) ? null : chosen;
  fillBoxes();
  drawCurves();
}

function useQuantity(key) {
  const { means, log } = there("panels").get(key);
  Object.assign(state, { key, log });
  byId("log").checked = log;
  byId("meaning").textContent = means;
}

// What the colours of the maps tell: all of them have the same.
function mapped() {
  const lines = tracks.flatMap((track) => [...track.of(state.key).lines.values()]);
  const values = lines.flatMap(({ x, y }) => y.slice(...sight(x, steps())));
  return extent(values.filter((v) => Number.isFinite(v) && (!state.log || v > 0)));
}

const maps = tracks.map((track) => {
  const canvas = element("canvas", { class: "map", tabindex: "0", role: "img" });
  const [title, keys] = [element("h3"), element("div", { class: "legend" })];
  const caption = element("figcaption", {}, title, keys);
  const figure = element("figure", { class: "panel", hidden: "" }, caption, canvas);
  const one = { track, figure, title, keys, lines: [] };
  const open = ({ mark, row, i }) => openSite(mark.rows[row].site, mark.rows[row].x[i]);
  const chart = new Chart(canvas, (width) => specOfMap(one, width), { open });
  return Object.assign(chart, { one });
});
byId("maps").replaceChildren(...maps.map(({ one }) => one.figure));

function specOfMap({ track, lines }, width) {
  const [low, high] = mapped();
  const place = scale({ low, high: high === low ? low + 1 : high, log: state.log }, 0, 1);
  const grey = ink("--grid");
  const colours = Array.from({ length: 256 }, (_, i) => shade(i / 255));
  const at = (v) => Math.round(255 * Math.min(Math.max(place(v), 0), 1));
  const colour = (v) => (Number.isNaN(v) ? grey : colours[state.log && v <= 0 ? 0 : at(v)]);
  const says = (i, row) => sayOf(lines[row], track, there("panels").get(state.key))(i);
  const names = lines.map(({ site }) => shortened(site, width < 500 ? 14 : 30));
  const cells = { kind: "cells", rows: lines, shade: colour, says };
  return { x: steps(), y: { rows: names }, marks: [cells] };
}

function drawMaps() {
  const panel = there("panels").get(state.key);
  const sites = sitesHere();
  const log = state.log ? "in logarithms, " : "";
  byId("map-says").textContent =
    sites.length === 0
      ? "Nothing was read of a layer yet."
      : `The quantity chosen above at every layer, ${log}from the first layer at the top; each ` +
        "place has the last reading before it. Choose one to see its layer alone.";
  for (const chart of maps) {
    const { track, figure, title, keys } = chart.one;
    const lines = sites.map((site) => track.of(state.key).lines.get(site)).filter(Boolean);
    chart.one.lines = lines;
    figure.hidden = lines.length === 0;
    if (figure.hidden) continue;
    const [low, high] = mapped().map((v) => compact(v, 3));
    title.textContent = `${panel.title}${several ? `, ${track.name}` : ""}`;
    const colours = [0, 0.25, 0.5, 0.75, 1].map(shade);
    keys.replaceChildren(scaleKey(low, `${high} ${panel.unit}`.trim(), colours));
    chart.canvas.style.height = `${Math.min(Math.max(lines.length * 18, 90), 560) + 40}px`;
    const ends = [lines[0], lines.at(-1)].map(({ site }) => shortened(site, 40)).join(" to ");
    const words = `Map of ${plural(lines.length, "layer")} over steps, from ${ends}`;
    const range = `colours from ${low} to ${high}; arrow keys walk, Enter chooses`;
    chart.canvas.setAttribute("aria-label", `${words}, ${range}`);
    chart.draw();
  }
}
