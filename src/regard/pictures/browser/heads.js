// Small maps of every layer and head; a click opens one as a matrix.
regard.views.heads = (() => {
  const { element, pixels } = regard.page, { greatest, key, strongest, whole } = regard.tokens, SIDE = 64, PAUSE = 12, WIDE = 720;

  class Heads {
    constructor(panel) {
      this.panel = panel;
      this.grid = element("div", { className: "regard-scroll" });
      this.key = element("div");
      this.element = element("div", {}, this.grid, this.key);
    }

    leave() {
      this.queue = [];
    }

    render() {
      const { panel } = this, { map } = panel, heads = [...Array(map.heads).keys()];
      const grid = element("table", { className: "regard-heads" });
      const cell = (layer, head) => {
        const canvas = element("canvas", { width: SIDE, height: SIDE, ariaHidden: "true" });
        canvas.style.width = canvas.style.height = `${Math.round(Math.max(48, Math.min(96, WIDE / map.heads)))}px`;
        this.queue.push(() => this.draw(canvas, layer, head));
        const name = `${map.layers[layer]}, head ${head}`;
        const take = () => { panel.own = { ...panel.own, layer, head }; panel.mounted.choose({ view: "matrix" }); };
        const on = panel.own.layer === layer && panel.own.head === head;
        return element("td", {}, element("button", { type: "button", ariaLabel: name, title: name, className: on ? "regard-on" : "", onclick: take }, canvas));
      };
      this.queue = [];
      grid.append(element("tr", {}, element("td"), ...heads.map((head) => element("th", { scope: "col" }, `head ${head}`))));
      grid.append(...map.layers.map((name, layer) => element("tr", {}, element("th", { scope: "row" }, name), ...heads.map((head) => cell(layer, head)))));
      this.grid.replaceChildren(grid);
      const own = element("p", { className: "regard-key" }, `${strongest()}: the largest of each head`);
      this.key.replaceChildren(panel.choice.shade === "fixed" ? key(map.scale, map, whole(map)) : own);
      this.drawSome();
    }

    drawSome() {
      const until = performance.now() + PAUSE;
      while (this.queue.length && performance.now() < until) this.queue.shift()();
      if (this.queue.length) requestAnimationFrame(() => this.drawSome());
    }

    // Each pixel is the greatest weight of the cells that it covers.
    draw(canvas, layer, head) {
      const { map: weights, lookup } = this.panel, { source, target } = lookup.labels(weights);
      const wide = Math.min(SIDE, source.length), high = Math.min(SIDE, target.length);
      const found = new Float32Array(wide * high), context = canvas.getContext("2d");
      for (let t = 0; t < target.length; t++) {
        const row = weights.row(layer, head, t), y = Math.floor((t * high) / target.length);
        for (let s = 0; s < row.length; s++) {
          const at = y * wide + Math.floor((s * wide) / source.length);
          if (Math.abs(row[s]) > Math.abs(found[at])) found[at] = row[s];
        }
      }
      if (!found.length) return;
      const most = this.panel.choice.shade === "fixed" ? weights.scale : greatest(found) || 1;
      context.imageSmoothingEnabled = false;
      context.drawImage(pixels(wide, high, (place) => found[place] / most), 0, 0, SIDE, SIDE);
    }

    mark() {}
  }

  Heads.title = "All heads";
  Heads.hint = "A click takes a head into the matrix.";
  Heads.fits = (_, map) => map.layers.length * map.heads > 1;
  Heads.keys = {};
  return Heads;
})();
