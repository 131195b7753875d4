// The text with one target label in focus, and every source label shaded by its weight.
regard.views.reading = (() => {
  const { element } = regard.page, { token, shade, EVEN, end, nearlyEven, greatest, key, strongest } = regard.tokens;

  class Reading {
    constructor(panel) {
      this.panel = panel;
      this.element = element("div", { className: "regard-texts" });
      this.at = 0;
    }

    leave() {}

    cell(side, place) {
      const { table, mounted } = this.panel;
      if (table.within && mounted.cutting) return [null, place]; // a click hides a word
      return side === "target" || table.within ? [place, null] : [this.at, place];
    }

    render() {
      const { panel } = this, { table } = panel, hides = panel.mounted.cutting || panel.mounted.cuts.length > 0;
      const text = (side) => element("div", { className: "regard-text", dir: "auto" }, ...table[side].map((_, place) => token(panel, side, place)));
      this.target = text(table.within && hides ? "source" : "target");
      this.source = table.within ? this.target : text("source");
      this.key = element("div");
      const heading = (text) => element("h2", {}, text), [reads, isRead] = panel.verbs;
      const parts = table.within || table.target.length < 2 ? [] : [heading(`target: point at what ${reads}`), this.target, heading(`source: shaded by how much it ${isRead}`)];
      this.element.replaceChildren(...parts, this.source, this.key);
      this.at = Math.min(this.at, Math.max(0, table.target.length - 1));
      this.mark();
    }

    mark() {
      const { table, focused, choice } = this.panel;
      if (focused.target !== null) this.at = focused.target;
      const row = table.rows[this.at] || new Float32Array(0), even = !table.amounts && nearlyEven(row), most = even ? end(row) : greatest(row) || 1;
      [...this.source.children].forEach((each, place) => {
        const share = (row[place] || 0) / most;
        shade(each, Math.abs(row[place] || 0) / table.scale < choice.threshold ? 0 : share);
        each.classList.toggle("regard-aim", focused.source === place);
      });
      [...this.target.children].forEach((each, place) => each.classList.toggle("regard-on", place === this.at));
      const found = even ? `nearly even: none is preferred; ${strongest()}: ${EVEN} times an even share` : `${strongest()}: the largest of this row`;
      this.key.replaceChildren(key(most, table, `${found}${table.within ? "; framed: the query" : ""}`));
    }

    reveal(t) {
      if (this.target.children[t]) this.target.children[t].scrollIntoView({ block: "nearest" });
    }
  }

  Reading.title = "Text";
  Reading.fits = (lookup, map) => !regard.data.onPatches(lookup, map);
  Reading.keys = { ArrowLeft: [-1, null], ArrowRight: [1, null], ArrowUp: [-1, null], ArrowDown: [1, null] };
  Reading.start = [0, null];
  return Reading;
})();
