// The page of widths: lines over size by verdict, and losses over the rate.

const places = data.sizes.map(Math.log2);
let { chosen } = data; // which line

function over() {
  const marks = data.lines.map(({ name, power, tone: t, y }, i) => {
    const says = (k) => [name, power, `×${compact(y[k], 3)} at ${data.sizes[k]}`];
    const looks = i === chosen ? { width: 3 } : { width: 1.2, alpha: 0.6 };
    return { kind: "line", x: places, y, colour: tone(t), says, ...looks };
  });
  const one = data.lines[chosen];
  if (one) {
    const [low, high] = [1, 2].map((end) => {
      return data.sizes.map((size) => (size / data.sizes[0]) ** one.law[end]);
    });
    marks.unshift({ kind: "band", x: places, low, high, colour: tone(one.tone), alpha: 0.14 });
    const name = shortened(one.name, 60);
    byId("chosen").textContent = `Over ${data.axis}, beside the smallest: ${name}`;
  }
  const axis = { whole: true, title: data.axis, words: (t) => String(2 ** t) };
  const x = { ...around(places[0], places.at(-1), 0, 0.1), ...axis };
  return { x, y: { log: true, title: "×" }, marks, empty: "no weight was told at every size" };
}

function losses() {
  const marks = data.rates.map(({ name, tone: t, x, y }) => {
    const says = (k) => [name, `loss ${compact(y[k])}`, `${compact(x[k])} of your rate`];
    return { kind: "line", x, y, colour: tone(t), says };
  });
  const x = { low: 1 / 18, high: 18, log: true, title: "learning rate, as a factor of yours" };
  // rates at which training broke would hide the rest
  const near = data.rates.flatMap(({ y }) => y).filter((v) => v <= data.most);
  return { x, y: { ...ends(near), title: "loss" }, marks };
}

const open = ({ mark }) => choose(data.lines.findIndex(({ y }) => y === mark.y));
new Chart(byId("lines"), { open }, over);
new Chart(byId("losses"), {}, losses);

function choose(i) {
  chosen = i;
  redraw();
}

pressed("weight", (i) => choose(Number(i)));
follow();
