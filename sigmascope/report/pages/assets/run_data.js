// Runs as far as they have come: asked for piece by piece where a server follows them, else at hand.

const data = JSON.parse(byId("data").textContent);

const NOTHING = { version: -1, generation: 0, rows: 0, step: null, time: "", about: {}, sites: [], depths: [], panels: [], meanings: {}, spectra: [], alarms: [], skipped: [], note: "", trouble: "", reading: false };

// What a packed column of places takes for each, two bytes or four.
function placesOf(text, count) {
  const raw = unpacked(text);
  return raw.byteLength > 2 * count ? new Uint32Array(raw) : new Uint16Array(raw);
}

function keyOf({ quantity, view, form }) {
  return JSON.stringify([quantity, view, form]);
}

// Readings of one quantity, a line for each place: {site, steps, values, low, high}.
class Curves {
  constructor() {
    Object.assign(this, { rows: 0, count: 0, lines: new Map(), stale: false });
  }

  add(form, sites) {
    const numbers = new Numbers(form, form.count);
    const grid = new Float64Array(unpacked(form.grid));
    const [series, at] = [placesOf(form.series, form.count), placesOf(form.at, form.count)];
    for (let i = 0; i < form.count; i += 1) {
      const site = sites[series[i]];
      let line = this.lines.get(site);
      if (!line) this.lines.set(site, (line = { site, steps: [], values: [], low: [], high: [] }));
      const step = grid[at[i]];
      if (line.steps.length > 0 && step <= line.steps[line.steps.length - 1]) this.stale = true; // filed again
      const [low, high] = numbers.ends(i);
      line.steps.push(step);
      line.values.push(numbers.values[i]);
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
    Object.assign(this, { index, state: { ...NOTHING, ...first }, curves: new Map(), spectra: new Map() });
  }

  // What the server says of the run; true if anything is new.
  heed(state) {
    if (state.version === this.state.version) return false;
    if (state.generation !== this.state.generation) {
      this.curves.clear();
      this.spectra.clear();
    }
    this.state = state;
    return true;
  }

  place(key) {
    return this.state.panels.findIndex((panel) => keyOf(panel) === key);
  }

  // The curves of a panel as far as they are here.
  of(key) {
    return this.curves.get(key) || new Curves();
  }

  async load(key) {
    const place = this.place(key);
    if (place < 0) return;
    let found = this.curves.get(key);
    if (found && !found.stale && found.rows >= this.state.panels[place].rows) return;
    const after = found && !found.stale ? found.rows : 0;
    const form = await this.ask(`panel?run=${this.index}&place=${place}&after=${after}`, () => data.runs[this.index].columns[place]);
    if (form.generation !== undefined && form.generation !== this.state.generation) return;
    if (after === 0) this.curves.set(key, (found = new Curves()));
    found.add(form, this.state.sites);
  }

  // Spectra of a matrix over time.
  async scrub(key) {
    const place = this.state.spectra.findIndex((one) => matrixKey(one) === key);
    if (place < 0) return;
    const { rows } = this.state.spectra[place];
    const known = this.spectra.get(key);
    if (known && known.rows === rows) return;
    const form = await this.ask(`spectra?run=${this.index}&place=${place}`, () => ({ spectra: data.runs[this.index].scrubbed[place] }));
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

function matrixKey({ site, view, form }) {
  return JSON.stringify([site, view, form]);
}

const tracks = data.runs.map((run, i) => new Track(run, i));

// Every panel that a run has, by its key, in the order in which they came.
function panelsThere() {
  const found = new Map();
  for (const track of tracks) for (const panel of track.state.panels) if (!found.has(keyOf(panel))) found.set(keyOf(panel), panel);
  return found;
}

// Places of the model in the order of its depth; what is no layer stands last.
function sitesInOrder(names) {
  const depth = new Map();
  for (const { state } of tracks) state.sites.forEach((site, i) => depth.set(site, state.depths[i] ?? depth.get(site) ?? null));
  const come = new Map([...depth.keys()].map((site, i) => [site, i]));
  const rank = (site) => [site.startsWith("(") ? 1 : 0, depth.get(site) ?? Infinity, come.get(site) ?? Infinity];
  const before = (a, b) => a[0] - b[0] || (a[1] === b[1] ? 0 : a[1] - b[1]) || a[2] - b[2];
  return [...names].map((site) => [rank(site), site]).sort(([a], [b]) => before(a, b)).map(([, site]) => site);
}

function lastStep() {
  return Math.max(0, ...tracks.map(({ state }) => state.step ?? 0));
}

function runName(track) {
  return shortened(track.state.name, 40);
}

function meaningOf(quantity) {
  const known = tracks.map(({ state }) => state.meanings[quantity]).find((one) => one && one.says);
  return known || { says: "", unit: "", scale: "linear", healthy: "", source: "" };
}
