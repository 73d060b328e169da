// Numbers of many matrices, as pages/packing.py packed them, unpacked when they are first wanted.

const data = JSON.parse(byId("data").textContent);
const SITES = data.matrices.site;
const COUNT = SITES.length;

function unpacked(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return bytes.buffer;
}

// The upper half of a float32 is a bfloat16.
function gapsOf(text) {
  const short = new Uint16Array(unpacked(text));
  return new Float32Array(Uint32Array.from(short, (bits) => bits << 16).buffer);
}

class Column {
  constructor(spec, count) {
    Object.assign(this, { spec, name: spec.name, count, odd: spec.odd || {} });
  }

  // Values, nan where there is none.
  get values() {
    if (!this.read) {
      this.read = Float64Array.from(new Float32Array(unpacked(this.spec.value)));
      for (const [i, [value]] of Object.entries(this.odd)) this.read[i] = number(value);
    }
    return this.read;
  }

  // The place of how a reading was found.
  route(i) {
    if (typeof this.spec.route === "number") return this.spec.route;
    if (!this.paths) {
      const read = unpacked(this.spec.route);
      this.paths = read.byteLength === 2 * this.count ? new Uint16Array(read) : new Uint32Array(read);
    }
    return this.paths[i];
  }

  // One reading; null where there is none.
  row(i) {
    const value = this.values[i];
    if (Number.isNaN(value)) return null;
    if (this.spec.gaps && !this.gaps) this.gaps = gapsOf(this.spec.gaps);
    const [how, risk, form] = data.routes[this.route(i)];
    const ends = this.odd[i]
      ? this.odd[i].slice(1).map(number)
      : this.gaps
        ? [value - this.gaps[i], value + this.gaps[this.count + i]]
        : [value, value];
    return { value, low: ends[0], high: ends[1], how, risk, form };
  }
}

const COLUMNS = data.columns.map((spec) => new Column(spec, COUNT));
const COLUMN = new Map(COLUMNS.map((column) => [column.name, column]));
const PAIRS = data.pairs.columns.map((spec) => new Column(spec, data.pairs.site.length));

// A word that many matrices share, as their kind.
function word(name, i) {
  return data.matrices[name].words[data.matrices[name].at[i]];
}

function shape(i) {
  return `${data.matrices.rows[i]} × ${data.matrices.cols[i]}`;
}

// What a reading is, its interval and how it was found: for a tooltip.
function told(row) {
  const exact = row.low === row.high ? "" : ` in [${compact(row.low, 6)}, ${compact(row.high, 6)}]`;
  const risk = row.risk ? `; ${chance(row.risk)}` : "";
  return `${compact(row.value, 6)}${exact}; ${shown(row.how)}${row.form ? `, ${shown(row.form)}` : ""}${risk}`;
}

function meaning(spec) {
  const parts = [spec.says, spec.range, spec.unit && `unit: ${spec.unit}`, spec.healthy && `healthy: ${spec.healthy}`, spec.source];
  return shown(parts.filter(Boolean).join(" · "));
}

function bytesize(count) {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(count, 1)) / 3));
  return `${compact(count / 1000 ** power, 3)} ${["bytes", "kB", "MB", "GB", "TB"][power]}`;
}

const POINTS = 96;
const HEAD = 32;
const STEPS = 0xfffe;

// Which of `count` values were kept, from 0.
function places(count) {
  if (count <= POINTS) return Array.from({ length: count }, (_, i) => i);
  const step = (count - 1 - HEAD) / (POINTS - HEAD - 1);
  return Array.from({ length: POINTS }, (_, i) => (i < HEAD ? i : Math.floor(HEAD + (i - HEAD) * step + 0.5)));
}

// Singular values of one matrix with their places; null where none were kept.
function spectrumOf(i) {
  const found = data.spectra[i];
  if (!found) return null;
  const [count, text, route, rows = data.matrices.rows[i], cols = data.matrices.cols[i]] = found;
  const read = unpacked(text);
  const [top, span] = new Float32Array(read, 0, 2);
  const steps = new Uint16Array(read, 8);
  const sigma = Array.from(steps, (s) => (s === 0 ? 0 : top * Math.exp(((s - 1) / STEPS - 1) * span)));
  return { count, sigma, at: places(count), rows, cols, how: data.routes[route][0] };
}
