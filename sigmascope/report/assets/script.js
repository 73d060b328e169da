// The page of a script: its losses as it is and with one thing changed.

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
  if (aside) hidden.add(String(i));
  const at = (k) => [shortened(says, 60), `loss ${compact(y[k])}`, `pass ${x[k]}`];
  return { kind: "line", x, y, calm: calm(y), dash: i < INKS ? [] : [6, 4], says: at };
});

function spec() {
  const marks = lines.flatMap((line, i) => {
    const how = { ...line, colour: tone(i) };
    if (hidden.has(String(i))) return [];
    if (!checked("calm")) return [how];
    const faint = { ...how, width: 1, alpha: 0.35, dots: false, says: null };
    return [faint, { ...how, y: line.calm, dots: false }];
  });
  const x = { whole: true, title: "backward pass" };
  return { x, y: { log: checked("log"), title: "loss" }, marks, empty: "no line is chosen" };
}

const longest = Math.max(2, ...lines.map(({ x }) => x.length));
const passes = new Sight(() => around(1, longest, 0, 0.5), byId("whole"));
const chart = new Chart(byId("losses"), { sight: passes }, spec);

byId("log").checked = spansDecades(lines.flatMap(({ y }) => Array.from(y).filter(Number.isFinite)));
follow();
