// The matrices of a scan and what was read of them, a column for each quantity.

const data = JSON.parse(byId("data").textContent);
const SITES = data.matrices.site;
const COUNT = SITES.length;

class Column extends Numbers {
  constructor(spec, count) {
    super(spec, count);
    Object.assign(this, { spec, name: spec.name });
  }

  // The place of how a reading was found.
  route(i) {
    if (typeof this.spec.route === "number") return this.spec.route;
    this.paths ||= placesIn(this.spec.route, data.routes.length);
    return this.paths[i];
  }

  // One reading; null where there is none.
  row(i) {
    const value = this.values[i];
    if (Number.isNaN(value)) return null;
    const [low, high] = this.ends(i);
    const [how, risk, form] = data.routes[this.route(i)];
    return { value, low, high, how, risk, form };
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

function meaning(spec) {
  const parts = [spec.says, spec.range, spec.unit && `unit: ${spec.unit}`, spec.healthy && `healthy: ${spec.healthy}`, spec.source];
  return shown(parts.filter(Boolean).join(" · "));
}

function bytesize(count) {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(count, 1)) / 3));
  return `${compact(count / 1000 ** power, 3)} ${["bytes", "kB", "MB", "GB", "TB"][power]}`;
}

// Singular values of one matrix with their places; null where none were kept.
function spectrumOf(i) {
  const found = data.spectra[i];
  if (!found) return null;
  const [count, text, route, rows = data.matrices.rows[i], cols = data.matrices.cols[i]] = found;
  return { count, ...valuesOf(text, count), rows, cols, how: data.routes[route][0] };
}
