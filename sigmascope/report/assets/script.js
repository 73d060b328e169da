// The page of a script: its losses as it is and with one thing changed.

const state = { hidden: new Set(), range: null };
const LAST = 5; // passes that a mean is of

// The mean of each loss with those before it, for minibatches differ.
function calm(y) {
  return y.map((_, i) => {
    const near = y.slice(Math.max(0, i - LAST + 1), i + 1);
    return near.reduce((sum, v) => sum + v, 0) / near.length;
  });
}

const lines = data.lines.map(({ says, values, aside }, i) => {
  const y = new Float64Array(unpacked(values));
  const x = Array.from(y, (_, k) => k + 1);
  if (aside) state.hidden.add(String(i));
  const at = (k) => [shortened(says, 60), `loss ${compact(y[k])}`, `pass ${x[k]}`];
  return { key: String(i), x, y, calm: calm(y), dash: i < INKS ? [] : [6, 4], says: at };
});

function whole() {
  return { low: 0.5, high: Math.max(2, ...lines.map(({ x }) => x.length)) + 0.5 };
}

function spec() {
  const shown = lines.filter(({ key }) => !state.hidden.has(key));
  const marks = shown.flatMap(({ key, x, y, calm, dash, says }) => {
    const how = { kind: "line", x, colour: tone(Number(key)), dash };
    if (!byId("calm").checked) return [{ ...how, y, says }];
    return [
      { ...how, y, width: 1, alpha: 0.35, dots: false },
      { ...how, y: calm, dots: false, says },
    ];
  });
  const x = { ...(state.range || whole()), whole: true, title: "backward pass" };
  return { x, y: { log: byId("log").checked, title: "loss" }, marks, empty: "no line is chosen" };
}

function lookAt(range) {
  state.range = range;
  byId("whole").hidden = range === null;
  chart.draw();
}

const chart = new Chart(byId("losses"), spec, { look: lookAt, whole });
byId("log").checked = spansDecades(lines.flatMap(({ y }) => Array.from(y).filter(Number.isFinite)));

pressed("line", (key, { target }) => {
  if (!state.hidden.delete(key)) state.hidden.add(key);
  target.setAttribute("aria-pressed", String(!state.hidden.has(key)));
  chart.draw();
});
listen("change", ["log", "calm"], () => chart.draw());
listen("click", ["whole"], () => lookAt(null));
follow(() => chart.draw());
ready();
