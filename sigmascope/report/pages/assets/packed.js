// Many numbers in few bytes, as pages/packing.py packed them, unpacked when they are first wanted.

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

// Places in a list of so many.
function placesIn(text, count) {
  return count > 0x10000 ? new Uint32Array(unpacked(text)) : new Uint16Array(unpacked(text));
}

// Values of which many are the same: each stands once.
function spread({ words, at }) {
  return Array.from(placesIn(at, words.length), (place) => words[place]);
}

class Numbers {
  constructor(spec, count) {
    Object.assign(this, { packed: spec, count, odd: spec.odd || {} });
  }

  // Values, nan where there is none.
  get values() {
    if (!this.read) {
      this.read = Float64Array.from(new Float32Array(unpacked(this.packed.value)));
      for (const [i, [value]] of Object.entries(this.odd)) this.read[i] = number(value);
    }
    return this.read;
  }

  // Of the interval.
  ends(i) {
    if (this.odd[i]) return this.odd[i].slice(1).map(number);
    if (!this.packed.gaps) return [this.values[i], this.values[i]];
    this.gaps ||= gapsOf(this.packed.gaps);
    return [this.values[i] - this.gaps[i], this.values[i] + this.gaps[this.count + i]];
  }
}

const HEAD = 32;
const STEPS = 0xfffe;

// Which of `count` values were kept, from 0, where `points` were.
function places(count, points) {
  if (count <= points) return Array.from({ length: count }, (_, i) => i);
  const step = (count - 1 - HEAD) / (points - HEAD - 1);
  return Array.from({ length: points }, (_, i) => (i < HEAD ? i : Math.floor(HEAD + (i - HEAD) * step + 0.5)));
}

// The singular values that were kept of `count`, and their places.
function valuesOf(text, count) {
  const read = unpacked(text);
  const [top, span] = new Float64Array(read, 0, 2);
  const steps = new Uint16Array(read, 16);
  const sigma = Array.from(steps, (s) => (s === 0 ? 0 : top * Math.exp(((s - 1) / STEPS - 1) * span)));
  return { sigma, at: places(count, steps.length) };
}
