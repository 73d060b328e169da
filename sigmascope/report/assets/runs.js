// Runs as far as they have come: asked for piece by piece where a server follows them, else at
// hand in the page.

const NOTHING = { sites: [], ranks: [], panels: [], spectra: [], alarms: [] };

// Readings of one quantity, a line for each place: {site, x: steps, y: values, low, high}.
class Curves {
  constructor() {
    Object.assign(this, { rows: 0, count: 0, whole: 0, lines: new Map() });
  }

  add(form, sites) {
    const { row } = columnOf(form, form.count);
    const grid = new Float64Array(unpacked(form.grid));
    const [series, at] = [form.series, form.at].map((text) => placesIn(text, form.count));
    let again = false; // a step was filed once more
    for (let i = 0; i < form.count; i += 1) {
      const [site, x] = [sites[series[i]], grid[at[i]]];
      const line = this.lines.get(site) ?? { site, x: [], y: [], low: [], high: [] };
      again ||= x <= line.x.at(-1);
      const { value: y = NaN, low = NaN, high = NaN } = row(i) ?? {};
      for (const [name, v] of Object.entries({ x, y, low, high })) line[name].push(v);
      this.lines.set(site, line);
    }
    this.count += form.count;
    if (form.after === 0) this.whole = this.count;
    const many = this.count > 2 * this.whole + 4000; // time to be thinned anew
    this.rows = again || many ? 0 : form.rows;
  }
}

class Track {
  constructor(first, index) {
    Object.assign(this, { index, curves: new Map(), spectra: new Map() });
    this.state = { version: -1, generation: 0, ...NOTHING, ...first };
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
    const after = this.of(key).rows;
    const form = await this.ask("panels", key, after, `&after=${after}`);
    if (form && after === 0) this.curves.set(key, new Curves());
    if (form) this.curves.get(key).add(form, this.state.sites);
  }

  // Spectra of a matrix over time.
  async scrub(key) {
    const form = await this.ask("spectra", key, this.spectra.get(key)?.rows ?? -1);
    const read = ([step, shape, count, text]) => ({ step, shape, ...valuesOf(text, count) });
    if (form) this.spectra.set(key, { ...form, spectra: form.spectra.map(read) });
  }

  // What there is of a kind under a key, where it is more than the rows that are here.
  async ask(kind, key, rows, more = "") {
    const { generation, [kind]: known } = this.state;
    const place = known.findIndex((one) => one.key === key);
    if (place < 0 || rows >= known[place].rows) return null;
    const asked = { rows: known[place].rows };
    if (!data.live) return { ...asked, ...data.runs[this.index].kept[kind][place] };
    const path = `/${kind}?run=${this.index}&place=${place}&generation=${generation}${more}`;
    const form = await get(path);
    const same = form && [form, this.state].every((one) => one.generation === generation);
    return same && { ...asked, ...form };
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

// Places of the model in the order of its depth; what is no layer stands last.
function inOrder(names) {
  const ranked = ({ state: { sites, ranks } }) => sites.map((site, i) => [site, ranks[i]]);
  const rank = new Map(tracks.toReversed().flatMap(ranked));
  return [...new Set(names)].sort((a, b) => rank.get(a) - rank.get(b));
}
