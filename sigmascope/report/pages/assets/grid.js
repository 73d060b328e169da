// A table of which only the rows in sight are in the document.

const ROW = 34; // pixels, as in grid.css
const BEYOND = 8; // rows drawn above and below what is in sight

// Places of words in their order, to sort by.
function ranksOf(words) {
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const places = new Map([...new Set(words)].sort(order).map((text, i) => [text, i]));
  return Float64Array.from(words, (text) => places.get(text));
}

// The words of a search box, each of which has to occur.
function searchWords(id) {
  return byId(id).value.toLowerCase().split(/\s+/).filter(Boolean);
}

class Grid {
  // A row is a number. Each of fields() is {name, title, width, text(row), keys()} and may be
  // numeric, grow, start at its largest (down), and have words for its head (says, unit), a
  // tooltip(row) or what to fill(row) a cell with. A click and Enter open a row, the space bar marks it.
  constructor(root, { fields, open, mark = open, chosen = () => false }) {
    Object.assign(this, { root, fields, open, mark, chosen, sort: null, down: false, active: 0, kept: [], order: [] });
    this.head = element("div", { class: "line", role: "row" });
    this.body = element("div", { class: "rows", role: "rowgroup" });
    root.replaceChildren(element("div", { class: "line-group", role: "rowgroup" }, this.head), this.body);
    this.drawRows = this.drawRows.bind(this);
    root.addEventListener("scroll", once(this.drawRows), { passive: true });
    root.addEventListener("keydown", (event) => this.walk(event));
    new ResizeObserver(once(this.drawRows)).observe(root);
  }

  // Show these rows from the top, in the order wanted; what was not read stands last.
  show(kept) {
    this.kept = kept;
    this.order = kept;
    if (this.sort) {
      const [keys, sign] = [this.sort.keys(), this.down ? -1 : 1];
      const known = kept.filter((i) => !Number.isNaN(keys[i]));
      const rest = kept.filter((i) => Number.isNaN(keys[i]));
      this.order = [...known.sort((a, b) => sign * (keys[a] === keys[b] ? 0 : keys[a] < keys[b] ? -1 : 1) || a - b), ...rest];
    }
    this.active = Math.min(this.active, Math.max(0, this.order.length - 1));
    this.root.scrollTop = 0;
    this.draw();
  }

  sortBy(field) {
    this.down = this.sort === field ? !this.down : Boolean(field.down);
    this.sort = field;
    this.show(this.kept);
    this.head.querySelector(`[data-field="${CSS.escape(field.name)}"]`).focus({ preventScroll: true });
  }

  headCell(field) {
    const order = this.sort !== field ? "none" : this.down ? "descending" : "ascending";
    const unit = field.unit ? element("span", { class: "unit" }, field.unit) : null;
    const options = { type: "button", "data-field": field.name, title: field.says || `sort by ${field.title}`, onclick: () => this.sortBy(field) };
    const button = element("button", options, element("span", { class: "title" }, field.title), unit);
    return element("div", { role: "columnheader", "aria-sort": order, class: field.numeric ? "n" : field.name }, button);
  }

  draw() {
    const fields = this.fields();
    const columns = fields.map((f) => (f.grow ? `minmax(${f.width}, 1fr)` : f.width));
    this.root.style.setProperty("--columns", columns.join(" "));
    this.root.style.setProperty("--wide", `calc(${fields.map((f) => f.width).join(" + ")})`);
    this.head.replaceChildren(...fields.map((f) => this.headCell(f)));
    this.root.setAttribute("aria-rowcount", String(this.order.length + 1));
    this.root.setAttribute("aria-colcount", String(fields.length));
    this.body.style.height = `${this.order.length * ROW}px`;
    this.drawRows();
  }

  drawRows() {
    const { root, order } = this;
    const from = Math.max(0, Math.floor(root.scrollTop / ROW) - BEYOND);
    const to = Math.min(order.length, Math.ceil((root.scrollTop + root.clientHeight) / ROW) + BEYOND);
    const fields = this.fields();
    this.body.replaceChildren(...Array.from({ length: Math.max(0, to - from) }, (_, k) => this.row(from + k, fields)));
    if (order.length > 0) root.setAttribute("aria-activedescendant", `${root.id}-${this.active}`);
  }

  row(place, fields) {
    const i = this.order[place];
    const states = [place === this.active ? "active" : "", this.chosen(i) ? "chosen" : ""].join(" ");
    const open = () => {
      this.active = place;
      this.open(i);
    };
    const options = { role: "row", class: `row ${states}`, id: `${this.root.id}-${place}`, "aria-rowindex": String(place + 2), "aria-selected": String(this.chosen(i)), onclick: open };
    const made = element("div", options, ...fields.map((f) => this.cell(f, i)));
    made.style.top = `${place * ROW}px`;
    return made;
  }

  cell(field, i) {
    const options = { role: field.name === "site" ? "rowheader" : "gridcell", class: field.numeric ? "n" : field.name };
    const title = field.tooltip ? field.tooltip(i) : field.fill ? "" : field.text(i);
    if (title) options.title = title;
    return element("div", options, ...(field.fill ? field.fill(i) : [field.text(i)]));
  }

  // Arrows walk through the rows.
  walk(event) {
    if (event.target !== this.root) return;
    const { root, order } = this;
    const page = Math.max(1, Math.floor(root.clientHeight / ROW) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -order.length, End: order.length }[event.key];
    const i = order[this.active];
    if (step !== undefined) {
      this.active = Math.max(0, Math.min(order.length - 1, this.active + step));
      const top = this.active * ROW;
      const seen = root.clientHeight - this.head.offsetHeight - ROW;
      if (top < root.scrollTop) root.scrollTop = top;
      else if (top > root.scrollTop + seen) root.scrollTop = top - seen;
      this.drawRows();
    } else if (event.key === "Enter" && i !== undefined) this.open(i);
    else if (event.key === " " && i !== undefined) this.mark(i);
    else return;
    event.preventDefault();
  }
}
