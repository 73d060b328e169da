// The page of widths: lines over size by verdict, and losses over the rate.

const [first, places] = [data.sizes[0], data.sizes.map(Math.log2)];
const worst = data.lines.findIndex(({ verdict }) => !["maximal", "cannot be told"].includes(verdict));
let chosen = Math.max(0, worst);

function over() {
  const x = { low: places[0] - 0.1, high: places.at(-1) + 0.1, whole: true, title: data.axis };
  x.words = (t) => String(2 ** t);
  const one = data.lines[chosen];
  const ends = (power) => data.sizes.map((size) => (size / first) ** power);
  const marks = data.lines.map(({ name, verdict, tone: t, y, law }, i) => {
    const says = (k) => [name, `${verdict}: power ${compact(law[0], 3)}`, `×${compact(y[k], 3)} at ${data.sizes[k]}`];
    const width = i === chosen ? 3 : 1.2;
    return { kind: "line", x: places, y, colour: tone(t), width, alpha: i === chosen ? 1 : 0.6, says };
  });
  if (one) {
    const band = { kind: "band", x: places, low: ends(one.law[1]), high: ends(one.law[2]) };
    marks.unshift({ ...band, colour: tone(one.tone), alpha: 0.14 });
    byId("chosen").textContent = `Over ${data.axis}, beside the smallest: ${shortened(one.name, 60)}`;
  }
  return { x, y: { log: true, title: "×" }, marks, empty: "no weight was told at every size" };
}

function losses() {
  const marks = data.rates.map(({ name, tone: t, x, y }) => {
    const says = (k) => [name, `loss ${compact(y[k])}`, `${compact(x[k])} of your rate`];
    return { kind: "line", x, y, colour: tone(t), says };
  });
  const x = { low: 1 / 18, high: 18, log: true, title: "learning rate, as a factor of yours" };
  const low = data.rates.flatMap(({ y }) => y);
  const [least, most] = extent(low);
  // rates at which training broke would hide the rest
  return { x, y: { ...ends(low.filter((v) => v <= least + 4 * (middle(low) - least))), title: "loss" }, marks };
}

const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

const lines = new Chart(byId("lines"), over, { open: ({ mark }) => choose(data.lines.findIndex(({ y }) => y === mark.y)) });
const rates = new Chart(byId("losses"), losses);

function choose(i) {
  chosen = i;
  lines.draw();
}

const key = ({ name, tone: t }) => element("span", { class: "line", style: `--tone: var(--c${t})` }, name);
byId("rate-keys").replaceChildren(...data.rates.map(key));
pressed("line", (i) => choose(Number(i)));
follow(() => {
  lines.draw();
  if (data.rates.length > 0) rates.draw();
});
ready();
