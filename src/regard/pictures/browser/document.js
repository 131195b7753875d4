// A document: each sentence after its weight, with its words shaded by theirs (Yang 2016, section 3.4).
regard.views.document = (() => {
  const { element, number } = regard.page, { token, shade, key, strongest } = regard.tokens;

  class Document {
    constructor(panel) {
      this.panel = panel;
      this.targets = element("div", { className: "regard-text", dir: "auto" });
      this.list = element("ol", { className: "regard-sentences" });
      this.key = element("div");
      this.element = element("div", { className: "regard-texts" }, this.targets, this.list, this.key);
      this.at = 0;
    }

    leave() {}

    cell(side, place) {
      return side === "target" ? [place, null] : [this.at, place];
    }

    render() {
      const { panel } = this, { table } = panel;
      this.targets.hidden = table.target.length < 2;
      this.targets.replaceChildren(...table.target.map((_, place) => token(panel, "target", place)));
      this.words = table.source.map((_, place) => token(panel, "source", place));
      const sentences = new Map();
      table.sentences.forEach((sentence, place) => {
        if (!sentences.has(sentence)) sentences.set(sentence, []);
        sentences.get(sentence).push(place);
      });
      this.parts = [...sentences.values()].map((places) => ({ places, weight: element("b") }));
      this.list.replaceChildren(...this.parts.map(({ places, weight }) =>
        element("li", {}, weight, element("div", { className: "regard-text", dir: "auto" }, ...places.map((place) => this.words[place])))));
      this.mark();
    }

    mark() {
      const { table, focused, choice } = this.panel;
      if (focused.target !== null) this.at = focused.target;
      const row = table.rows[this.at] || new Float32Array(0);
      const sums = this.parts.map(({ places }) => places.reduce((sum, place) => sum + Math.abs(row[place] || 0), 0));
      const inside = this.parts.map(({ places }, i) => places.map((place) => (sums[i] ? (row[place] || 0) / Math.sqrt(sums[i]) : 0)));
      const most = Math.max(...sums, 0) || 1, darkest = Math.max(...inside.flat().map(Math.abs), 0) || 1;
      this.parts.forEach(({ places, weight }, i) => {
        weight.textContent = number(sums[i]);
        shade(weight, sums[i] / most);
        places.forEach((place, j) => {
          shade(this.words[place], Math.abs(row[place] || 0) / table.scale < choice.threshold ? 0 : inside[i][j] / darkest);
          this.words[place].classList.toggle("regard-aim", focused.source === place);
        });
      });
      [...this.targets.children].forEach((each, place) => each.classList.toggle("regard-on", place === this.at));
      this.key.replaceChildren(
        key(most, {}, `before a sentence: its weight; ${strongest()}: the largest here`),
        key(darkest, table, `a word: its weight within its sentence × the root of the sentence's; ${strongest()}: the largest here`),
      );
    }

    reveal(_, s) {
      if (this.words[s]) this.words[s].scrollIntoView({ block: "nearest" });
    }
  }

  Document.title = "Document";
  Document.fits = (lookup, map) => Boolean(lookup.sentences) && !map.source;
  Document.keys = { ArrowLeft: [null, -1], ArrowRight: [null, 1], ArrowUp: [-1, null], ArrowDown: [1, null] };
  Document.start = [0, 0];
  return Document;
})();
