// Many numbers in few bytes, as report/pages.py packed them, unpacked when they are first wanted.

const data = JSON.parse(byId("data").textContent);

function unpacked(text) {
  const slowly = () => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)); // in older browsers
  return (Uint8Array.fromBase64?.(text) ?? slowly()).buffer;
}

// So many places in a list, of two bytes each, or of four.
function placesIn(text, count) {
  const raw = unpacked(text);
  return raw.byteLength > 2 * count ? new Uint32Array(raw) : new Uint16Array(raw);
}

// So many values of which many are the same: each stands once.
function spread({ words, at }, count) {
  return Array.from(placesIn(at, count), (place) => words[place]);
}

class Numbers {
  constructor(packed, count) {
    Object.assign(this, { packed, count, odd: packed.odd || {} });
  }

  // Values, nan where there is none; JSON has no infinities, they come as words.
  get values() {
    if (!this.read) {
      this.read = Float64Array.from(new Float32Array(unpacked(this.packed.value)));
      for (const [i, [value]] of Object.entries(this.odd)) this.read[i] = Number(value);
    }
    return this.read;
  }

  // One value with its interval; null where there is none.
  row(i) {
    const value = this.values[i];
    if (Number.isNaN(value)) return null;
    if (this.odd[i]) return { value, low: Number(this.odd[i][1]), high: Number(this.odd[i][2]) };
    if (!this.packed.gaps) return { value, low: value, high: value };
    if (!this.gaps) {
      // a bfloat16 is the upper half of a float32
      const halves = new Uint16Array(unpacked(this.packed.gaps));
      this.gaps = new Float32Array(Uint32Array.from(halves, (bits) => bits << 16).buffer);
    }
    return { value, low: value - this.gaps[i], high: value + this.gaps[this.count + i] };
  }
}

const HEAD = 32;
const STEPS = 0xfffe;

// The singular values that were kept of `count`, and their ranks; none where they have no scale.
function valuesOf(text, count) {
  if (!text) return { sigma: [], rank: [], count };
  const read = unpacked(text);
  const [top, span] = new Float64Array(read, 0, 2);
  const value = (step) => (step === 0 ? 0 : top * Math.exp(((step - 1) / STEPS - 1) * span));
  const sigma = Array.from(new Uint16Array(read, 16), value);
  const far = (count - 1 - HEAD) / (sigma.length - HEAD - 1);
  const all = sigma.length === count;
  const place = (k) => (all || k < HEAD ? k : Math.floor(HEAD + (k - HEAD) * far + 0.5));
  return { sigma, rank: sigma.map((_, k) => 1 + place(k)), count };
}

// A spectrum as a mark of a chart.
function spectrumMark({ title, sigma, rank, count }, looks) {
  const says = (k) => [title, `value ${rank[k]} of ${count}: ${compact(sigma[k])}`];
  return { kind: "line", x: rank, y: sigma, says, dots: sigma.length <= 80, ...looks };
}

function rankAxis(most) {
  return { low: 0.9, high: most * 1.1, log: true, title: "rank" };
}
