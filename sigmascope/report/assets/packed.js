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

// Words that so many things share: of each, by its place. One that all share has no places.
function wordsOf({ words, at }, count) {
  const places = kept(() => placesIn(at, count));
  return (i) => words[places()[i] ?? 0];
}

// A column of so many numbers: values(), nan where there is none, and row(i) with the interval,
// null where there is none. JSON has no infinities, they come as words.
function columnOf({ value: text, gaps, odd = {} }, count) {
  const values = kept(() => {
    const read = Float64Array.from(new Float32Array(unpacked(text)));
    for (const [i, numbers] of Object.entries(odd)) read[i] = Number(numbers[0]);
    return read;
  });
  // a bfloat16 is the upper half of a float32
  const upper = () => Uint32Array.from(new Uint16Array(unpacked(gaps)), (bits) => bits << 16);
  const gap = kept(() => new Float32Array(gaps ? upper().buffer : 2 * count));
  const row = (i) => {
    const here = values()[i];
    if (Number.isNaN(here)) return null;
    const ends = [here, here - gap()[i], here + gap()[count + i]];
    const [value, low, high] = odd[i]?.map(Number) ?? ends;
    return { value, low, high };
  };
  return { values, row };
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
