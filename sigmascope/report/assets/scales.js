// Colours and axes: what number is where.

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const INKS = 7; // colours of series, --c0 to --c6

const tone = (index) => ink(`--c${index % INKS}`);

// The same for an element, which has it in either theme.
const toned = (index) => ({ style: `--tone: var(--c${index % INKS})` });

const SHADES = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

// A colour of the scale from dark violet to yellow, at 0 to 1.
function shade(t) {
  const x = Math.min(Math.max(t, 0), 1) * (SHADES.length - 1);
  const i = Math.min(Math.floor(x), SHADES.length - 2);
  const part = (c, k) => Math.round(c + (x - i) * (SHADES[i + 1][k] - c));
  return `rgb(${SHADES[i].map(part).join(" ")})`;
}

// The least and the largest of any number of values: arguments of a call are limited.
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
}

// The place of what is least far, among what is nearer than the most.
function nearest(list, far, most = Infinity) {
  let [best, least] = [-1, most];
  list.forEach((one, k) => {
    const here = far(one);
    if (here < least) [best, least] = [k, here];
  });
  return best;
}

// Whether the values ask for a log scale: positive, and over more than a factor of 30.
function spansDecades(values) {
  const [least, most] = extent(values.filter((v) => v > 0));
  return extent(values)[0] >= 0 && least < most && most >= 30 * least;
}

// Ends of an axis that holds these values, with a little room on both sides.
function ends(values, log) {
  const known = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  if (known.length === 0) return { low: log ? 0.1 : 0, high: log ? 10 : 1, log };
  const [low, high] = extent(known);
  if (log) {
    const room = Math.max((high / low) ** 0.06, 1.06);
    return { low: low / room, high: high * room, log };
  }
  const room = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
  const least = low >= 0 && low < room ? Math.min(0, low - room / 2) : low - room;
  return { low: least, high: high + room, log };
}

// Ends of an axis of places, with a share of it and a little more as room on both sides.
function around(first, last, share, more = 0) {
  const room = more + share * (last - first) || 0.5;
  return { low: first - room, high: last + room };
}

// Round numbers between two ends, about `most`; whole numbers where only they are places.
function ticks({ low, high, log, whole }, most) {
  const decades = log ? Math.log10(high / low) : 0;
  if (decades < 1) {
    const rough = Math.max((high - low) / most, whole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.max(0, Math.floor(high / step + 1e-9) - first + 1);
    return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }
  const within = 3 * decades <= most + 2 ? [1, 2, 5] : [1];
  const every = Math.ceil(decades / most);
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high) + 1; p += every) {
    found.push(...within.map((m) => m * 10 ** p));
  }
  return found.filter((t) => t >= low * 0.999 && t <= high * 1.001);
}

// Where a number of an axis is between two pixels, and back() which number is at a pixel.
function scale({ low, high, log }, from, to) {
  const [by, un] = log ? [Math.log, Math.exp] : [(v) => v, (v) => v];
  const [first, span] = [by(low), by(high) - by(low)];
  const place = (v) => from + ((by(v) - first) / span) * (to - from);
  return Object.assign(place, { back: (p) => un(first + ((p - from) / (to - from)) * span) });
}

// The part of sorted numbers that an axis shows, with a neighbour on both sides.
function sight(x, { low, high }) {
  const from = x.findIndex((v) => v >= low);
  return [Math.max(0, (from < 0 ? x.length : from) - 1), x.findLastIndex((v) => v <= high) + 2];
}
