// Small maps of every layer and head, on the patches of an image their means over the targets; a click opens one.
regard.views.heads = (() => {
  const { element, pixels } = regard.page, { EVEN, end, greatest, key, strongest, whole } = regard.tokens, SIDE = 64, PAUSE = 12, WIDE = 720;

  class Heads {
    constructor(panel) {
      this.panel = panel;
      this.grid = element("div", { className: "regard-scroll" });
      this.key = element("div");
      this.first = element("p", { className: "regard-first" });
      this.element = element("div", {}, this.grid, this.first, this.key);
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
        const title = `${map.layers[layer]}, head ${head}`;
        const number = layer * map.heads + head, { mounted } = panel, off = mounted.cuts.some(({ queries, keys, maps }) => !queries && !keys && (!maps || maps.includes(number)));
        const open = () => this.open(layer, head);
        const take = () => (mounted.cutting ? mounted.emit("regard-cut", { queries: null, keys: null, maps: [number] }) : open());
        const on = panel.own.layer === layer && panel.own.head === head;
        return element("td", {}, element("button", { type: "button", ariaLabel: off ? `${title}, off` : title, title, className: [on ? "regard-on" : "", off ? "regard-off" : ""].join(" "), onclick: take }, canvas));
      };
      this.queue = [];
      grid.append(element("tr", {}, element("td"), ...heads.map((head) => element("th", { scope: "col" }, `head ${head}`))));
      grid.append(...map.layers.map((name, layer) => element("tr", {}, element("th", { scope: "row" }, name), ...heads.map((head) => cell(layer, head)))));
      const focused = [...this.grid.querySelectorAll("button")].indexOf(document.activeElement);
      this.grid.replaceChildren(grid);
      if (focused >= 0) grid.querySelectorAll("button")[focused].focus();
      const named = ([layer, head]) => element("button", { type: "button", ariaLabel: `Open ${map.layers[layer]}, head ${head}`, onclick: () => this.open(layer, head) }, `${map.layers[layer]}, head ${head}`);
      this.first.replaceChildren(...(map.signed ? [] : ["Most focused: ", ...panel.focusedHeads.slice(0, 5).map(named)]));
      const mean = panel.table.target.length > 1 ? "; the mean over all labels" : "", image = this.places ? `, at least ${EVEN} × uniform${mean}` : "";
      const own = element("p", { className: "regard-key" }, `${strongest()}: the maximum of each head${image}`);
      this.key.replaceChildren(this.fixed ? key(map.scale, map, whole(map)) : own);
      this.drawSome();
    }

    open(layer, head) {
      this.panel.own = { ...this.panel.own, layer, head };
      this.panel.mounted.choose({ view: "matrix" });
    }

    drawSome() {
      const until = performance.now() + PAUSE;
      while (this.queue.length && performance.now() < until) this.queue.shift()();
      if (this.queue.length) requestAnimationFrame(() => this.drawSome());
    }

    // The patches that are the source labels, if they are.
    get places() {
      const { lookup, map } = this.panel;
      return regard.data.onPatches(lookup, map) ? lookup.patches : null;
    }

    // Whether all heads have one scale; weights on patches are too small for that of shares.
    get fixed() {
      return this.panel.choice.shade !== "largest" && !this.places;
    }

    // The rows of a small map, and their length.
    rows(layer, head) {
      const { map: weights, lookup } = this.panel, { source, target } = lookup.labels(weights), { places } = this;
      const rows = target.map((_, t) => weights.row(layer, head, t));
      if (!places) return [rows, source.length];
      const { first, columns } = places, one = regard.data.mean(rows);
      return [[...Array(places.rows).keys()].map((row) => one.slice(first + row * columns, first + (row + 1) * columns)), columns];
    }

    // Each pixel is the greatest weight of the cells that it covers.
    draw(canvas, layer, head) {
      const [rows, count] = this.rows(layer, head), wide = Math.min(SIDE, count), high = Math.min(SIDE, rows.length);
      const found = new Float32Array(wide * high), context = canvas.getContext("2d");
      rows.forEach((row, t) => {
        const y = Math.floor((t * high) / rows.length);
        for (let s = 0; s < row.length; s++) {
          const at = y * wide + Math.floor((s * wide) / count);
          if (Math.abs(row[s]) > Math.abs(found[at])) found[at] = row[s];
        }
      });
      if (!found.length) return;
      const most = this.fixed ? this.panel.map.scale : this.places ? end(found) : greatest(found) || 1;
      context.imageSmoothingEnabled = false;
      context.drawImage(pixels(wide, high, (place) => found[place] / most), 0, 0, SIDE, SIDE);
    }

    mark() {}
  }

  Heads.title = "All heads";
  Heads.hint = "A click opens a head alone.";
  Heads.cutHint = "A click switches a head off, or on again.";
  Heads.fits = (_, map) => map.layers.length * map.heads > 1;
  Heads.keys = {};
  return Heads;
})();
