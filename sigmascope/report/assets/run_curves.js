// Curves over steps: the loss, and one quantity at the layers chosen, of one run or two; and a map
// of that quantity at every layer, one for each run.

const FEW = 7; // lines that have a colour each; more are shaded by their place in the model
// what is looked at; null for all layers, and for the last step
const state = { key: null, chosen: null, matrix: null, at: null };

// All charts look at the same steps.
const steps = new Sight(() => {
  const last = Math.max(0, ...tracks.map((track) => track.state.step ?? 0));
  const curves = tracks.flatMap((track) => [...track.panels.values()]);
  const lines = curves.flatMap((one) => [...one.lines.values()]);
  return around(Math.min(last, ...lines.map(({ x }) => x[0])), last, 0.01);
}, byId("whole"));

const panelShown = () => there("panels").get(state.key);

// Places at which the quantity chosen was read, by any run, in the order of their depth in the
// model; what is no layer stands last.
function sitesHere() {
  const ranked = ({ state: { sites, ranks } }) => sites.map((site, i) => [site, ranks[i]]);
  const rank = new Map(tracks.toReversed().flatMap(ranked));
  const names = tracks.flatMap((track) => [...track.of(state.key).lines.keys()]);
  return [...new Set(names)].sort((a, b) => rank.get(a) - rank.get(b));
}

function sitesShown() {
  return sitesHere().filter((site) => state.chosen === null || state.chosen.has(site));
}

// The colour of each place, within what is legible on the card: yellow is not on white, nor violet
// on black.
function coloursShown() {
  const [sites, dark] = [sitesShown(), document.documentElement.dataset.theme === "dark"];
  const at = (i) => (dark ? 0.28 + 0.72 * i : 0.82 * i);
  const many = sites.length > FEW;
  const colour = (i) => (many ? shade(at(i / (sites.length - 1))) : tone(i));
  return new Map(sites.map((site, i) => [site, colour(i)]));
}

// The lines of a panel, of one run, each with its looks.
function linesOf(track, key, looks) {
  const { quantity, unit } = there("panels").get(key) ?? {};
  return [...track.of(key).lines.values()].map((line) => {
    const { site, x, y, low, high } = line;
    const says = (i) => {
      const reading = measured({ value: y[i], low: low[i], high: high[i] });
      const step = `step ${compact(x[i])}${several ? `, ${track.name}` : ""}`;
      return [shortened(site, 60), `${quantity}: ${reading}${unit ? ` ${unit}` : ""}`, step];
    };
    return { ...line, kind: "line", says, width: 1.75, ...looks?.(line) };
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

function curveMarks() {
  const colours = coloursShown();
  const many = colours.size > FEW; // of width 1 many lines are drawn four times as fast
  return tracks.flatMap((track) => {
    const looks = { dash: track.index ? [5, 4] : [], dots: !many, width: many ? 1 : 1.75 };
    const toned = ({ site }) => ({ ...looks, colour: colours.get(site) });
    return linesOf(track, state.key, toned).filter(({ colour }) => colour);
  });
}

// Where alarms begin, intervals and lines, and a key for each run where there are two.
function specOf(lines, y, about, runColour) {
  const begins = tracks.flatMap(({ state: { alarms }, index }) =>
    alarms.filter(about).map(({ begin, severity }) => {
      const how = { colour: ink(`--${severity}`), dash: [2, 3], alpha: index ? 0.5 : 0.9 };
      return { kind: "uprights", x: [begin], ...how };
    }),
  );
  const areas = lines.length > FEW ? [] : lines.flatMap(intervals);
  const none = y.log === true ? "nothing above zero in sight" : "nothing in sight";
  const empty = lines.length === 0 ? "nothing was read here yet" : none;
  const marks = [...(checked("marks") ? begins : []), ...areas, ...lines];
  const keys = several ? tracks.map(({ name, index }) => keyOf(name, ...runColour(index))) : [];
  return { x: { title: "step" }, y, marks, keys, empty };
}

function scaleKey(first, last, colours) {
  const style = `background: linear-gradient(to right, ${colours.join(", ")})`;
  return element("span.scale", {}, first, element("i", { style }), last);
}

new Chart(byId("loss"), { sight: steps }, () => {
  return specOf(lossMarks(), { log: "auto" }, () => true, (i) => [`var(--c${i})`]);
});

const lead = { sight: steps, open: ({ mark, i }) => openSite(mark.site, mark.x[i]) };
const curve = new Chart(byId("curve"), lead, (width) => {
  const { quantity, unit, title } = panelShown();
  const [lines, log] = [curveMarks(), checked("log")];
  const below = log ? lines.flatMap(({ y }) => y).filter((v) => v <= 0).length : 0;
  const words = `not above zero ${below === 1 ? "has" : "have"} no place on a log scale.`;
  each("textContent", { "curve-title": title, nothing: `${plural(below, "reading")} ${words}` });
  byId("nothing").hidden = below === 0;
  const colours = [...coloursShown()];
  const end = (at) => shortened(colours.at(at)[0], width < 450 ? 12 : 24);
  const places =
    colours.length > FEW
      ? [scaleKey(end(0), end(-1), colours.map(([, colour]) => colour))]
      : colours.map(([site, colour]) => keyOf(shortened(site, 32), colour));
  const about = ({ quantities: of }) => of.length === 0 || of.includes(quantity);
  const spec = specOf(lines, { log, title: unit }, about, (i) => ["var(--soft)", i > 0]);
  return { ...spec, keys: [...places, ...spec.keys] };
});

// The lines of a map, from the first layer; the values in sight, that its colours tell.
function rowsOf(track) {
  const lines = new Map(linesOf(track, state.key).map((line) => [line.site, line]));
  return sitesHere().flatMap((site) => lines.get(site) ?? []);
}

// All maps have the same.
function mapped() {
  const [log, axis] = [checked("log"), steps.ends];
  const values = tracks.flatMap(rowsOf).flatMap(({ x, y }) => y.slice(...sight(x, axis)));
  return extent(values.filter((v) => Number.isFinite(v) && (!log || v > 0)));
}

const maps = tracks.map((track) => {
  const canvas = element("canvas.map", { tabindex: "0", role: "img" });
  const title = element("h3");
  const caption = element("figcaption", {}, title, element("div.legend"));
  const figure = element("figure.panel", { hidden: "" }, caption, canvas);
  byId("maps").append(figure);
  frames.push(() => {
    const { length } = rowsOf(track);
    figure.hidden = length === 0;
    canvas.style.height = `${Math.min(Math.max(length * 18, 90), 560) + 40}px`;
  });
  const open = ({ mark, row, i }) => openSite(mark.rows[row].site, mark.rows[row].x[i]);
  return new Chart(canvas, { open }, (width) => {
    const [rows, panel, log, [low, high]] = [rowsOf(track), panelShown(), checked("log"), mapped()];
    const [least, most] = [low, high].map((v) => compact(v, 3));
    title.textContent = `${panel.title}${several ? `, ${track.name}` : ""}`;
    const ends = [rows[0], rows.at(-1)].map(({ site }) => shortened(site, 40)).join(" to ");
    const words = `Map of ${plural(rows.length, "layer")} over steps, from ${ends}`;
    const range = `colours from ${least} to ${most}; arrow keys walk, Enter chooses`;
    canvas.setAttribute("aria-label", `${words}, ${range}`);
    const place = scale({ low, high: high === low ? low + 1 : high, log }, 0, 1);
    const grey = ink("--grid");
    const colours = Array.from({ length: 256 }, (_, i) => shade(i / 255));
    const at = (v) => Math.round(255 * Math.min(Math.max(place(v), 0), 1));
    const colour = (v) => (Number.isNaN(v) ? grey : colours[log && v <= 0 ? 0 : at(v)]);
    const says = (i, row) => rows[row].says(i);
    const names = rows.map(({ site }) => shortened(site, width < 500 ? 14 : 30));
    const shades = [0, 0.25, 0.5, 0.75, 1].map(shade);
    const keys = [scaleKey(least, `${most} ${panel.unit}`.trim(), shades)];
    const marks = [{ kind: "cells", rows, shade: colour, says }];
    return { x: { ...steps.ends, title: "step" }, y: { rows: names }, marks, keys };
  });
});
