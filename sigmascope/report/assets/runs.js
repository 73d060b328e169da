// Runs as far as they have come: asked for piece by piece where a server follows them, else at
// hand in the page.

const FROM = { version: -1, generation: 0, step: null };
const NOTHING = { ...FROM, sites: [], ranks: [], panels: [], spectra: [], alarms: [] };

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
      const site = sites[series[i]];
      if (!this.lines.has(site)) this.lines.set(site, { site, x: [], y: [], low: [], high: [] });
      const [line, x] = [this.lines.get(site), grid[at[i]]];
      again ||= x <= line.x.at(-1);
      const { value, low, high } = row(i) ?? { value: NaN, low: NaN, high: NaN };
      line.x.push(x);
      line.y.push(value);
      line.low.push(low);
      line.high.push(high);
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
    this.state = { ...NOTHING, ...first };
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
    if (form) this.spectra.set(key, form);
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
    const same = generation === form.generation && generation === this.state.generation;
    return same ? { ...asked, ...form } : null;
  }
}

class Unheard extends Error {}

async function get(path) {
  const unheard = (error) => {
    throw new Unheard(error);
  };
  const answer = await fetch(path).catch(unheard);
  return answer.ok ? answer.json().catch(unheard) : unheard(answer.status);
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
