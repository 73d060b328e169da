// Runs as far as they have come: asked for piece by piece where a server follows them, else at
// hand in the page.

const NOTHING = { sites: [], ranks: [], panels: [], spectra: [], alarms: [] };

// Readings of one quantity, a line for each place, and those of a form added to them.
function added({ lines, count, most }, form, sites) {
  const { row } = columnOf(form, form.count);
  const grid = new Float64Array(unpacked(form.grid));
  const [series, at] = [form.series, form.at].map((text) => placesIn(text, form.count));
  let again = count + form.count > most; // to be thinned anew, or a step was filed once more
  for (let i = 0; i < form.count; i += 1) {
    const [site, x] = [sites[series[i]], grid[at[i]]];
    const line = lines.get(site) ?? { site, x: [], y: [], low: [], high: [] };
    again ||= x <= line.x.at(-1);
    const { value: y = NaN, low = NaN, high = NaN } = row(i) ?? {};
    for (const [name, v] of Object.entries({ x, y, low, high })) line[name].push(v);
    lines.set(site, line);
  }
  return { lines, count: count + form.count, most, rows: again ? 0 : form.rows };
}

class Track {
  constructor(first, index) {
    Object.assign(this, { index, panels: new Map(), spectra: new Map() });
    this.state = { version: -1, generation: 0, ...NOTHING, ...first };
  }

  get name() {
    return shortened(this.state.name, 40);
  }

  // What the server says of the run; true if anything is new.
  heed(found) {
    if (found.version === this.state.version) return false;
    if (found.generation !== this.state.generation) {
      this.panels.clear();
      this.spectra.clear();
    }
    this.state = found;
    return true;
  }

  // The curves of a panel as far as they are here.
  of(key) {
    return this.panels.get(key) ?? { lines: new Map(), count: 0 };
  }

  // Load what there is of a kind, panels or spectra, under a key, beyond the rows that are here.
  async load(kind, key) {
    const { generation, [kind]: known } = this.state;
    const place = known.findIndex((one) => one.key === key);
    const after = this[kind].get(key)?.rows ?? 0;
    if (place < 0 || after >= known[place].rows) return;
    const asked = `run=${this.index}&place=${place}&after=${after}&generation=${generation}`;
    const kept = () => ({ generation, ...data.runs[this.index].kept[kind][place] });
    const form = data.live ? await get(`/${kind}?${asked}`) : kept();
    if (form?.generation !== generation || this.state.generation !== generation) return;
    if (kind === "spectra") {
      const read = ([step, shape, count, text]) => ({ step, shape, ...valuesOf(text, count) });
      this.spectra.set(key, { rows: known[place].rows, every: form.spectra.map(read) });
      return;
    }
    const none = { lines: new Map(), count: 0, most: 2 * form.count + 4000 };
    const before = after === 0 ? none : this.panels.get(key);
    this.panels.set(key, added(before, form, this.state.sites));
  }
}

// What the server answers; null where it does not.
async function get(path) {
  const answer = await fetch(path).catch(() => null);
  return answer?.ok ? answer.json().catch(() => null) : null;
}

const tracks = data.runs.map((run, i) => new Track(run, i));
const several = tracks.length > 1;

// Everything of a kind that a run has, by its key, in the order in which it came.
function there(kind) {
  return new Map(tracks.flatMap(({ state }) => state[kind].map((one) => [one.key, one])));
}
