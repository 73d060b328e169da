// Runs as far as they have come: asked for piece by piece where a server follows them, else at
// hand in the page.

const NOTHING = { version: -1, generation: 0, step: null, sites: [], ranks: [], panels: [] };
const state = { key: null, chosen: null, range: null, log: false, marks: true };

// Readings of one quantity, a line for each place: {site, x: steps, y: values, low, high}.
class Curves {
  constructor() {
    Object.assign(this, { rows: 0, count: 0, lines: new Map(), stale: false });
  }

  add(form, sites) {
    const numbers = new Numbers(form, form.count);
    const grid = new Float64Array(unpacked(form.grid));
    const [series, at] = [form.series, form.at].map((text) => placesIn(text, form.count));
    for (let i = 0; i < form.count; i += 1) {
      const site = sites[series[i]];
      if (!this.lines.has(site)) this.lines.set(site, { site, x: [], y: [], low: [], high: [] });
      const [line, step] = [this.lines.get(site), grid[at[i]]];
      if (step <= line.x.at(-1)) this.stale = true; // filed again
      const { value, low, high } = numbers.row(i) || { value: NaN, low: NaN, high: NaN };
      line.x.push(step);
      line.y.push(value);
      line.low.push(low);
      line.high.push(high);
    }
    this.rows = form.rows;
    this.count += form.count;
    if (form.after === 0) this.whole = this.count;
    else if (this.count > 2 * this.whole + 4000) this.stale = true; // time to be thinned anew
  }
}

class Track {
  constructor(first, index) {
    Object.assign(this, { index, curves: new Map(), spectra: new Map() });
    this.state = { ...NOTHING, spectra: [], alarms: [], ...first };
  }

  get name() {
    return shortened(this.state.name, 40);
  }

  // What the server says of the run; true if anything is new.
  heed(found) {
    if (found.version === this.state.version) return false;
    if (found.generation !== this.state.generation) {
      this.curves.clear();
      this.spectra.clear();
    }
    this.state = found;
    return true;
  }

  // The curves of a panel as far as they are here.
  of(key) {
    return this.curves.get(key) || new Curves();
  }

  async load(key) {
    const place = this.state.panels.findIndex((panel) => panel.key === key);
    const known = this.of(key);
    if (place < 0 || (!known.stale && known.rows >= this.state.panels[place].rows)) return;
    const after = known.stale ? 0 : known.rows;
    const here = () => data.runs[this.index].columns[place];
    const form = await this.ask(`panel?run=${this.index}&place=${place}&after=${after}`, here);
    if (form.generation !== undefined && form.generation !== this.state.generation) return;
    if (after === 0) this.curves.set(key, new Curves());
    this.curves.get(key).add(form, this.state.sites);
  }

  // Spectra of a matrix over time.
  async scrub(key) {
    const place = this.state.spectra.findIndex((one) => one.key === key);
    if (place < 0) return;
    const { rows } = this.state.spectra[place];
    if (this.spectra.get(key)?.rows === rows) return;
    const here = () => ({ spectra: data.runs[this.index].scrubbed[place] });
    const form = await this.ask(`spectra?run=${this.index}&place=${place}`, here);
    if (form.spectra) this.spectra.set(key, { rows, all: form.spectra });
  }

  async ask(path, here) {
    return data.live ? get(`/${path}&generation=${this.state.generation}`) : here();
  }
}

class Unheard extends Error {}

async function get(path) {
  const unheard = (error) => {
    throw new Unheard(error);
  };
  const answer = await fetch(path).catch(unheard);
  if (!answer.ok) unheard(answer.status);
  return answer.json().catch(unheard);
}

const tracks = data.runs.map((run, i) => new Track(run, i));
const several = tracks.length > 1;

// Everything of a kind that a run has, by its key, in the order in which it came.
function there(kind) {
  return new Map(tracks.flatMap(({ state }) => state[kind].map((one) => [one.key, one])));
}

// Places of the model in the order of its depth; what is no layer stands last.
function inOrder(names) {
  const ranked = ({ state: { sites, ranks } }) => sites.map((site, i) => [site, ranks[i]]);
  const rank = new Map(tracks.toReversed().flatMap(ranked));
  return [...new Set(names)].sort((a, b) => rank.get(a) - rank.get(b));
}

function wholeSteps() {
  const last = Math.max(0, ...tracks.map(({ state }) => state.step ?? 0));
  const curves = tracks.flatMap((track) => [...track.curves.values()]);
  const lines = curves.flatMap((one) => [...one.lines.values()]);
  const first = Math.min(last, ...lines.map(({ x }) => x[0]));
  const room = 0.01 * (last - first) || 0.5;
  return { low: first - room, high: last + room };
}

const steps = () => ({ ...(state.range || wholeSteps()), title: "step" });

function sayOf({ site, x, y, low, high }, track, { quantity, unit }) {
  return (i) => {
    const reading = measured({ value: y[i], low: low[i], high: high[i] });
    const step = `step ${compact(x[i])}${several ? `, ${track.name}` : ""}`;
    return [shortened(site, 60), `${quantity}: ${reading}${unit ? ` ${unit}` : ""}`, step];
  };
}
