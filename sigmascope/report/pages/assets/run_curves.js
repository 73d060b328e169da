// Curves over steps: the loss, and one quantity at the layers chosen, of one run or two.

const state = { key: null, chosen: null, range: null, log: false, marks: true };
const FEW = 7; // lines that have a colour each; more are shaded by their place in the model
const DOTS = 80; // readings of a line that are marked
const NEAR = 3; // pixels between two that can be pointed at
const WALKED = 5000; // spots that arrow keys walk from left to right

const SHADES = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

// A colour of the scale from dark violet to yellow, at 0 to 1.
function shadeAt(t) {
  const x = Math.min(Math.max(t, 0), 1) * (SHADES.length - 1);
  const i = Math.min(Math.floor(x), SHADES.length - 2);
  return SHADES[i].map((c, k) => Math.round(c + (x - i) * (SHADES[i + 1][k] - c)));
}

// Within what is legible on the card: yellow is not on white, nor violet on black.
function shadeOf(place, count) {
  const dark = document.documentElement.dataset.theme === "dark";
  const t = count > 1 ? place / (count - 1) : 0;
  return `rgb(${shadeAt(dark ? 0.28 + 0.72 * t : 0.82 * t).join(" ")})`;
}

function panelName({ quantity, form, view }) {
  const other = view === "watch" ? "" : `, ${view}`;
  return form || other ? `${quantity} (${form || "all"}${other})`.replace("(all, ", "(") : quantity;
}

class Spot {
  constructor(x, y, line, i) {
    Object.assign(this, { x, y, line, i });
  }

  says() {
    const { line, i } = this;
    const row = { value: line.values[i], low: line.low[i], high: line.high[i] };
    return [
      shortened(line.site, 60),
      `${shown(line.name)}: ${measured(row)}${line.unit ? ` ${line.unit}` : ""}`,
      `step ${compact(line.steps[i])}${tracks.length > 1 ? `, ${runName(line.track)}` : ""}`,
    ];
  }
}

function wholeSteps() {
  const last = lastStep();
  const first = Math.min(last, ...tracks.flatMap((t) => [...t.curves.values()].flatMap((c) => [...c.lines.values()].map((l) => l.steps[0]))));
  const room = 0.01 * (last - first) || 0.5;
  return { low: first - room, high: last + room };
}

// Where a line enters and leaves the steps looked at, with a neighbour on both sides.
function inSight({ steps }, { low, high }) {
  const cut = (value) => {
    let [a, b] = [0, steps.length];
    while (a < b) {
      const middle = (a + b) >> 1;
      if (steps[middle] < value) a = middle + 1;
      else b = middle;
    }
    return a;
  };
  return [Math.max(0, cut(low) - 1), Math.min(steps.length, cut(high) + 1)];
}

function endsOf(lines, x, log) {
  let [least, most] = [Infinity, -Infinity];
  for (const { line } of lines) {
    const [from, to] = inSight(line, x);
    for (let i = from; i < to; i += 1) {
      const v = line.values[i];
      if (!Number.isFinite(v) || (log && v <= 0)) continue;
      if (v < least) least = v;
      if (v > most) most = v;
    }
  }
  return ends([least, most], log);
}

// One line; adds what of it can be pointed at to the spots.
function trace(drawn, one, x, spots) {
  const { context, px, py, box } = drawn;
  const { line, colour, dash = [], width = 1.75 } = one; // of width 1 many lines are drawn four times as fast
  const [from, to] = inSight(line, x);
  Object.assign(context, { strokeStyle: colour, lineWidth: width, lineJoin: width > 1 ? "round" : "bevel" });
  context.setLineDash(dash);
  context.beginPath();
  let [pen, last] = [false, -Infinity];
  const dots = [];
  for (let i = from; i < to; i += 1) {
    const [a, b] = [px(line.steps[i]), py(line.values[i])];
    const here = Number.isFinite(b);
    if (here) context[pen && one.joined !== false ? "lineTo" : "moveTo"](a, b);
    pen = here;
    if (!here || a < box.left - 1 || a > box.right + 1) continue;
    dots.push([a, b]);
    if (a - last >= NEAR || i === to - 1) {
      spots.push(new Spot(a, b, line, i));
      last = a;
    }
  }
  context.stroke();
  context.setLineDash([]);
  if (one.dots !== false && (dots.length <= DOTS || dots.length === 1 || one.joined === false)) for (const [a, b] of dots) dot(context, a, b, dots.length < 3 ? 4 : 2.4, colour);
}

function drawBands(drawn, lines, x) {
  for (const { line, colour } of lines) {
    const [from, to] = inSight(line, x);
    const row = (i) => ({ value: line.values[i], low: line.low[i], high: line.high[i] });
    const places = Array.from({ length: to - from }, (_, k) => from + k);
    if (places.some((i) => matters(row(i)))) band(drawn, places.map((i) => [line.steps[i], line.low[i], line.high[i]]), colour);
  }
}

function alarmTone({ severity }) {
  return ink(`--${severity}`);
}

// Where alarms begin, as dotted uprights.
function drawBegins({ context, px, box }, of) {
  context.save();
  context.setLineDash([2, 3]);
  for (const track of tracks) {
    for (const alarm of track.state.alarms.filter(of)) {
      const x = px(alarm.begin);
      if (x < box.left || x > box.right) continue;
      Object.assign(context, { strokeStyle: alarmTone(alarm), lineWidth: 1.5, globalAlpha: track.index ? 0.5 : 0.9 });
      context.beginPath();
      context.moveTo(x, box.top);
      context.lineTo(x, box.bottom);
      context.stroke();
    }
  }
  context.restore();
}

function drawLines(one, lines, { log, title, about }) {
  const x = { ...(state.range || wholeSteps()), title: "step" };
  const drawn = chart(one.canvas, x, { ...endsOf(lines, x, log), title });
  if (state.marks) drawBegins(drawn, about);
  const spots = [];
  within(drawn, () => {
    if (lines.length <= FEW) drawBands(drawn, lines, x);
    for (const each of lines) trace(drawn, each, x, spots);
  });
  one.spots = spots.length > WALKED ? spots : spots.sort((a, b) => a.x - b.x || a.y - b.y);
  if (spots.length === 0) {
    drawn.context.textAlign = "center";
    const why = lines.length === 0 ? "nothing was read here yet" : log ? "nothing above zero in sight" : "nothing in sight";
    drawn.context.fillText(why, (drawn.box.left + drawn.box.right) / 2, (drawn.box.top + drawn.box.bottom) / 2);
  }
  return drawn;
}

function lossKey() {
  const found = [...panelsThere()].filter(([, panel]) => panel.quantity === "loss");
  return (found.find(([, panel]) => panel.form === "") || found[0] || [null])[0];
}

function dressed(line, track, key) {
  const { quantity } = panelsThere().get(key);
  return Object.assign(line, { track, name: quantity, unit: meaningOf(quantity).unit });
}

// Means over blocks of steps, where a run has them: they leave out no step.
function meansKey() {
  const found = [...panelsThere()].find(([, panel]) => panel.quantity === "loss" && panel.form === "mean of steps");
  return found ? found[0] : null;
}

function linesOf(track, key, more) {
  if (key === null) return [];
  return [...track.of(key).lines.values()].map((line) => ({ line: dressed(line, track, key), colour: ink(INKS[track.index]), ...more }));
}

// Single losses are dots beside their means, for what lies between them was another; alone they are a curve.
function lossLines() {
  const [key, means] = [lossKey(), meansKey()];
  return tracks.flatMap((track) => {
    const drawn = means === key ? [] : linesOf(track, means, { dots: false });
    return [...drawn, ...linesOf(track, key, drawn.length > 0 ? { joined: false } : {})];
  });
}

// Places at which the quantity chosen was read, by any run.
function sitesHere() {
  return sitesInOrder(new Set(tracks.flatMap((track) => [...track.of(state.key).lines.keys()])));
}

function sitesShown() {
  const here = sitesHere();
  return state.chosen === null ? here : here.filter((site) => state.chosen.has(site));
}

function coloursOf(sites) {
  return new Map(sites.map((site, i) => [site, sites.length <= FEW ? ink(INKS[i]) : shadeOf(i, sites.length)]));
}

function curveLines() {
  const colours = coloursOf(sitesShown());
  const many = colours.size > FEW;
  return tracks.flatMap((track) =>
    [...colours].flatMap(([site, colour]) => {
      const line = track.of(state.key).lines.get(site);
      if (!line) return [];
      return [{ line: dressed(line, track, state.key), colour, dash: track.index ? [5, 4] : [], width: many ? 1 : 1.75, dots: !many }];
    })
  );
}

function keyLine(words, colour, dashed = false) {
  return element("span", { class: dashed ? "line dashed" : "line", style: `--tone: ${colour}` }, words);
}

function scaleKey(first, last, colours) {
  return element("span", { class: "scale" }, first, element("i", { style: `background: linear-gradient(to right, ${colours.join(", ")})` }), last);
}

function fillKeys() {
  const colours = coloursOf(sitesShown());
  const sites = [...colours.keys()];
  const tones = [...colours.values()];
  const room = document.documentElement.clientWidth < 500 ? 12 : 24;
  const places = sites.length > FEW ? [scaleKey(shortened(sites[0], room), shortened(sites[sites.length - 1], room), tones)] : sites.map((site) => keyLine(shortened(site, 32), colours.get(site)));
  const runs = tracks.length > 1 ? tracks.map((track) => keyLine(runName(track), ink("--soft"), track.index > 0)) : [];
  byId("keys").replaceChildren(...places, ...runs);
  byId("loss-keys").replaceChildren(...(tracks.length > 1 ? tracks.map((track) => keyLine(runName(track), ink(INKS[track.index]))) : []));
}

function fillBoxes() {
  const words = searchWords(byId("filter").value);
  const here = sitesHere();
  const boxes = here.filter((site) => words.every((word) => site.toLowerCase().includes(word))).map((site) => {
    const box = element("input", { type: "checkbox", onchange: () => toggleSite(site) });
    box.checked = state.chosen === null || state.chosen.has(site);
    return element("label", {}, box, named(shortened(site, 48)));
  });
  byId("boxes").replaceChildren(...boxes);
  const count = sitesShown().length;
  byId("chosen").textContent = `Layers: ${count === here.length ? `all ${here.length}` : `${count} of ${here.length}`}`;
}

function searchWords(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

function toggleSite(site) {
  const chosen = state.chosen === null ? new Set(sitesHere()) : state.chosen;
  if (!chosen.delete(site)) chosen.add(site);
  chooseSites(chosen);
}

function chooseSites(chosen) {
  const here = sitesHere();
  state.chosen = chosen === null || here.every((site) => chosen.has(site)) ? null : chosen;
  fillBoxes();
  drawCurves();
}

// All charts look at the same steps.
function lookAt(range) {
  state.range = range;
  byId("whole").hidden = range === null;
  drawOverSteps();
}

const lossPlot = plotOn(byId("loss"), {
  draw: (one) => drawLines(one, lossLines(), { log: spansDecades(lossLines().flatMap(({ line }) => line.values)), title: "", about: () => true }),
  open: () => {},
  look: lookAt,
  whole: wholeSteps,
});
const curvePlot = plotOn(byId("curve"), {
  draw: (one) => {
    const panel = panelsThere().get(state.key);
    const shows = (alarm) => alarm.evidence.length === 0 || alarm.evidence.some((r) => panel && r.quantity === panel.quantity);
    return drawLines(one, curveLines(), { log: state.log, title: panel ? meaningOf(panel.quantity).unit : "", about: shows });
  },
  open: (spot) => openSite(spot.line.site, spot.line.steps[spot.i]),
  look: lookAt,
  whole: wholeSteps,
});

function drawCurves() {
  const loss = lossLines();
  const panel = panelsThere().get(state.key);
  byId("loss-figure").hidden = loss.length === 0;
  byId("curve-figure").hidden = !panel;
  fillKeys();
  if (loss.length > 0) lossPlot.draw();
  if (!panel) return;
  byId("curve-title").textContent = shown(panelName(panel));
  const below = state.log ? curveLines().reduce((count, { line }) => count + line.values.filter((v) => v <= 0).length, 0) : 0;
  byId("nothing").hidden = below === 0;
  byId("nothing").textContent = `${plural(below, "reading")} not above zero ${below === 1 ? "has" : "have"} no place on a log scale.`;
  curvePlot.draw();
}

function fillQuantities() {
  const found = [...panelsThere()];
  const wanted = found.map(([key, panel]) => element("option", { value: key }, shown(panelName(panel))));
  const select = byId("quantity");
  if (select.options.length !== wanted.length || [...select.options].some((o, i) => o.value !== found[i][0])) select.replaceChildren(...wanted);
  if (found.length === 0) return;
  if (!found.some(([key]) => key === state.key)) useQuantity(firstQuantity(found));
  select.value = state.key;
}

// The gradient norm, or else what has most readings, but for the loss, which has its own chart.
function firstQuantity(found) {
  const other = found.filter(([, panel]) => panel.quantity !== "loss");
  const usual = other.find(([, panel]) => panel.quantity === "gradient norm");
  const [most] = [...other].sort(([, a], [, b]) => b.rows - a.rows);
  return (usual || most || found[0])[0];
}

function useQuantity(key) {
  state.key = key;
  const { quantity } = panelsThere().get(key);
  const meaning = meaningOf(quantity);
  state.log = meaning.scale === "log";
  byId("log").checked = state.log;
  const words = [meaning.says && `${titled(meaning.says)}.`, meaning.unit && `Unit: ${meaning.unit}.`, meaning.healthy && `Usual: ${meaning.healthy}.`, meaning.source && `${meaning.source}.`];
  byId("meaning").textContent = shown(words.filter(Boolean).join(" "));
}
