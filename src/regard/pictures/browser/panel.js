// One view of one map, layer and head of the chosen lookups.
regard.Panel = (() => {
  const { element, number } = regard.page, SMALL = 0.3;

  const select = (label, options, value, change) => {
    const found = element("select", { ariaLabel: label, onchange: () => change(JSON.parse(found.value)) },
      ...options.map(([name, each]) => element("option", { value: JSON.stringify(each), selected: each === value }, name)));
    return element("label", { className: "regard-choice" }, element("span", {}, label), found);
  };

  class Panel {
    constructor(mounted, choice) {
      this.mounted = mounted;
      this.own = { lookup: 0, map: 0, layer: null, head: null, hidden: [], ...choice };
      this.focused = { target: null, source: null };
      this.from = null;
      this.choices = element("div", { className: "regard-choices" });
      this.place = element("div", { className: "regard-place" });
      this.status = element("output", { className: "regard-status", ariaLive: "polite" });
      this.breakdown = element("section", { className: "regard-breakdown", hidden: true, ariaLabel: "How a weight is computed" });
      this.signs = element("p", { className: "regard-signs" });
      const { recording } = this.lookup;
      this.player = recording ? element("audio", { controls: true, src: `data:audio/wav;base64,${recording.data}` }) : null;
      this.effects = element("section", { className: "regard-effects" });
      this.element = element("section", { className: "regard-panel" }, this.choices, this.status, this.player, this.place, this.signs, this.effects, this.breakdown);
      this.place.addEventListener("keydown", (event) => this.key(event));
      this.place.addEventListener("focus", () => { if (this.focused.target === null && this.kind.start) this.focus(...this.kind.start); });
    }

    get lookup() {
      return this.mounted.lookups[this.own.lookup];
    }

    get map() {
      return this.lookup.maps[this.own.map];
    }

    // Whether a click shows the breakdown of a lookup, or why there is none.
    get hasBreakdown() {
      return this.own.map === 0 && Boolean(this.lookup.breakdown || this.lookup.noBreakdown);
    }

    get verbs() {
      return this.map.verbs || this.lookup.verbs;
    }

    get choice() {
      const { head } = this.own;
      return { ...this.mounted.choice, threshold: this.mounted.threshold, ...this.own, head: head === "each" ? null : head };
    }

    // The chosen view, or the first one that has a meaning for the map.
    get shown() {
      const { view } = this.mounted.choice;
      return this.fits(view) ? view : Object.keys(regard.views).find((name) => this.fits(name));
    }

    fits(view) {
      return regard.views[view].fits(this.lookup, this.map);
    }

    get kind() {
      return regard.views[this.shown];
    }

    // The end of the colour scale of a matrix. Shares end at 1; where all are below 0.3 they would hardly be visible.
    get scaleEnd() {
      const { rows, scale, source } = this.table, { shade } = this.choice, most = Math.max(...rows.map(regard.tokens.greatest)) || 1;
      if (shade === "largest") return most;
      const faint = shade === "auto" && scale === 1 && most < SMALL;
      return faint ? Math.min(1, Math.max(most, regard.tokens.EVEN / source.length)) : scale;
    }

    // The heads, each [layer, head], whose queries attend to few keys, and not all to the same, first.
    get focusedHeads() {
      const { map } = this, scored = map.layers.flatMap((_, layer) => [...Array(map.heads).keys()].map((head) => {
        const rows = map.rows(layer, head), mean = regard.data.mean(rows);
        return [rows.reduce((sum, row) => sum + regard.tokens.greatest(row), 0) / rows.length - regard.tokens.greatest(mean), layer, head];
      }));
      return scored.sort((a, b) => b[0] - a[0]).map(([, layer, head]) => [layer, head]);
    }

    // A text that attends to itself begins with its most focused head: a mean of all hides each.
    concentrate() {
      const { map, lookup, own } = this, { source, target } = lookup.labels(map), within = target.length > 1 && source.join() === target.join();
      if (this.mounted.comparing || !within || own.map !== 0 || map.amounts || map.layers.length * map.heads < 2) return;
      if (own.layer !== null || own.head !== null) return;
      [[own.layer, own.head]] = this.focusedHeads;
      this.automatic = true;
    }

    // The rows of all targets for one head of the chosen layer.
    rowsOf(head) {
      return this.map.rows(this.own.layer, head);
    }

    choose(some) {
      this.automatic = false;
      Object.assign(this.own, some);
      if ("lookup" in some) Object.assign(this.own, { map: this.lookup.shown, layer: null, head: null });
      this.fit();
      this.breakdown.hidden = true;
      this.render();
      this.mounted.synchronise();
    }

    // Lines of a mean of all layers and heads say little: unless one is chosen they are those of each head of the last
    // layer, and other views begin as the first one.
    opened() {
      const { own, map } = this, lines = this.kind === regard.views.lines;
      if (this.automatic) Object.assign(own, { layer: null, head: null });
      this.automatic = false;
      if (!lines) return this.concentrate();
      if (own.layer !== null || own.head !== null || map.heads < 2 || map.heads > this.kind.most) return;
      Object.assign(own, { layer: map.layers.length - 1, head: "each" });
      this.automatic = true;
    }

    // Drop a chosen layer or head that this map lacks.
    fit() {
      const { own } = this, { layers, heads } = this.map;
      if (own.layer >= layers.length) own.layer = null;
      if (own.head === "each" ? heads < 2 : own.head >= heads) own.head = null;
    }

    // Render everything again, after another choice or more data.
    render() {
      this.table = this.lookup.table(this.choice);
      const { target, source } = this.focused;
      if (target >= this.table.target.length || source >= this.table.source.length) this.focused = { target: null, source: null };
      const { kind } = this;
      if (!(this.view instanceof kind)) {
        if (this.view) this.view.leave();
        this.view = new kind(this);
        this.place.replaceChildren(this.view.element);
      }
      const moves = Object.keys(kind.keys).length > 0, enter = this.mounted.cutting ? "Shift selects several, Enter cuts" : "Enter shows the computation";
      Object.assign(this.place, { tabIndex: moves ? 0 : -1, role: moves ? "application" : "group" });
      this.place.ariaLabel = `${kind.title} of ${this.lookup.name || "attention"}.${moves ? ` Arrow keys move, ${enter}.` : ""}`;
      this.menus();
      this.view.render();
      const labels = new Set([...this.table.source, ...this.table.target]), start = labels.has("∎") ? "its start" : "start of text";
      const means = { "∎": "end of text", "▷": start };
      this.signs.textContent = Object.entries(means).filter(([sign]) => labels.has(sign)).map((each) => each.join(" ")).join(", ");
      this.listEffects();
      this.say();
    }

    // The edges of the greatest effects, as a sorted list.
    listEffects() {
      const { rows, source, target } = this.table, edges = [];
      if (this.map.name === "effect") rows.forEach((row, t) => row.forEach((nats, s) => { if (nats > 0) edges.push([nats, t, s]); }));
      const first = edges.sort((a, b) => b[0] - a[0]).slice(0, 5);
      // a label that occurs again has its position
      const label = (labels, place) => element("bdi", {}, labels[place], labels.indexOf(labels[place]) === labels.lastIndexOf(labels[place]) ? null : element("sub", {}, `${place + 1}`));
      const line = ([nats, t, s]) => element("li", {}, element("button", { type: "button", onclick: () => this.focus(t, s) },
        label(target, t), " → ", label(source, s), " ", element("b", {}, number(nats)), " nats"));
      const title = element("h2", {}, first.length === 5 ? "These five edges matter most" : "These edges matter most");
      this.effects.replaceChildren(...(first.length ? [title, element("ol", {}, ...first.map(line))] : []));
    }

    // The numbers of the visible maps, layer x heads + head; null for all.
    get numbers() {
      const { layer, head } = this.choice, { heads, layers } = this.map, own = (chosen, count) => (chosen === null ? [...Array(count).keys()] : [chosen]);
      return layer === null && head === null ? null : own(layer, layers.length).flatMap((one) => own(head, heads).map((other) => one * heads + other));
    }

    // Cut the edges between two places of the table; a side without a place is cut as a whole, and the only label of a document
    // or an image stands for all queries.
    cut(from, to) {
      const edges = { maps: this.numbers };
      for (const [side, name] of [["target", "queries"], ["source", "keys"]]) {
        const words = this.lookup.wordsOf(this.choice, side), ends = [from[side], to[side]].sort((a, b) => a - b);
        const within = (place) => place >= ends[0] && place <= ends[1], pieces = words ? words.index : this.table[side].map((_, place) => place);
        const whole = side === "target" && this.table.target.length === 1 && from.source !== null && (this.lookup.patches || this.lookup.sentences);
        edges[name] = whole || ends.includes(null) ? null : [...pieces.keys()].filter((piece) => within(pieces[piece]));
      }
      this.from = null;
      if (edges.queries || edges.keys) this.mounted.emit("regard-cut", edges);
    }

    // The places of the visible table on both sides that each cut concerns, null for all, and whether it is of all visible maps.
    get crossed() {
      const visible = this.numbers || [...Array(this.map.heads * this.map.layers.length).keys()], places = (side, pieces) => {
        const words = this.lookup.wordsOf(this.choice, side);
        return pieces && (words ? [...new Set(pieces.map((piece) => words.index[piece]))] : pieces);
      };
      const cuts = this.mounted.cuts.map(({ queries, keys, maps }) => ({ queries, keys, count: visible.filter((map) => !maps || maps.includes(map)).length }));
      return cuts.filter(({ count, queries, keys }) => count === visible.length || (count && (queries || keys)))
        .map(({ queries, keys, count }) => ({ target: places("target", queries), source: places("source", keys), full: count === visible.length }));
    }

    menus() {
      const { lookups } = this.mounted, { map, lookup } = this, menus = [];
      const add = (label, name, names, first = []) => {
        const options = [...first, ...names.map((each, place) => [each, place])];
        if (options.length > 1) menus.push(select(label, options, this.own[name], (value) => this.choose({ [name]: value })));
      };
      const heads = [...Array(map.heads).keys()].map(String), each = this.kind === regard.views.lines && map.heads <= this.kind.most ? [["all heads, by color", "each"]] : [];
      add("Attention", "lookup", lookups.map((other, place) => other.name || `${place + 1}`));
      add("Method", "map", lookup.maps.map(({ name }) => name));
      if (this.kind !== regard.views.heads) {
        add("Layer", "layer", map.layers, map.layers.length > 1 ? [["mean of all", null]] : []);
        add("Head", "head", heads, map.heads > 1 ? [["mean of all", null], ...each] : []);
      }
      const place = [...this.choices.querySelectorAll("select")].indexOf(document.activeElement);
      this.choices.replaceChildren(...menus);
      if (place >= 0) this.choices.querySelectorAll("select")[place].focus();
    }

    // Focus a target, a source label, both or neither. Other panels follow.
    focus(target, source, follow = true) {
      const within = (place, labels) => (place === null || place < 0 || place >= labels.length ? null : place);
      const next = { target: within(target, this.table.target), source: within(source, this.table.source) };
      if (next.target === this.focused.target && next.source === this.focused.source) return;
      this.focused = next;
      this.view.mark();
      this.say();
      if (follow) this.mounted.follow(this, next);
    }

    unfocus() {
      if (document.activeElement !== this.place) this.focus(null, null);
    }

    // A click keeps the focus, shows the breakdown if there is one, and fires the event `regard-pick`.
    pick(target, source) {
      this.focus(target, source);
      if (this.mounted.cutting) return this.cut(this.from || this.focused, this.focused);
      if (this.place.tabIndex === 0) this.place.focus({ preventScroll: true });
      if (this.player) this.play(this.focused);
      this.breakdown.hidden = this.focused.target === null || !this.hasBreakdown;
      if (!this.breakdown.hidden) this.breakdown.replaceChildren(...regard.breakdown.show(this, this.focused.target, this.focused.source));
      this.mounted.emit("regard-pick", { lookup: this.own.lookup, ...this.focused });
    }

    // Play a part of the recording, or those that a target attends to most: the parts around the greatest weight that have
    // at least half of it.
    play({ target, source }) {
      const row = this.table.rows[target] || [], { seconds } = this.lookup.recording, count = this.table.source.length;
      let first = source ?? row.indexOf(Math.max(...row)), last = first;
      if (first < 0) return;
      while (source === null && first > 0 && row[first - 1] >= row[last] / 2) first -= 1;
      while (source === null && last < count - 1 && row[last + 1] >= Math.max(...row) / 2) last += 1;
      clearTimeout(this.ending);
      this.player.currentTime = first * seconds;
      this.player.play();
      this.ending = setTimeout(() => this.player.pause(), Math.max(200, 1000 * (last + 1 - first) * seconds));
    }

    say() {
      const { target, source } = this.focused, { table } = this, [attendsTo, isAttendedTo] = this.verbs, parts = [];
      const label = (text) => element("bdi", {}, text);
      if (target !== null) parts.push(label(table.target[target]));
      if (target !== null && source !== null) parts.push(` ${attendsTo} `);
      if (source !== null) parts.push(label(table.source[source]));
      if (target !== null && source !== null) parts.push(" ", element("b", {}, number(table.rows[target][source] || 0)));
      else if (target !== null) parts.push(` ${attendsTo} `, ...this.most(table.rows[target]));
      else if (source !== null) parts.push(` ${isAttendedTo} by `, ...this.most(table.rows.map((row) => row[source] || 0), table.target));
      if (parts.length && table.amounts) parts.push(` (${table.name})`);
      this.status.replaceChildren(...(parts.length ? parts : [element("span", {}, this.hint())]));
    }

    // The three largest weights with their labels.
    most(weights, labels = this.table.source) {
      const order = Array.from(weights.keys()).sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || a - b).slice(0, 3);
      return order.flatMap((place) => [element("bdi", {}, labels[place] ?? ""), " ", element("b", {}, number(weights[place])), "  "]);
    }

    hint() {
      const { table } = this;
      const works = this.player ? " Click to hear what a token attends to." : this.own.map === 0 && this.lookup.breakdown ? " Click for the computation." : "", sizes = `${table.target.length} ${table.target.length === 1 ? "query" : "queries"} × ${table.source.length} ${table.source.length === 1 ? "key" : "keys"}.`;
      if (this.mounted.cutting) return `${sizes} ${this.kind.cutHint ?? "Click, drag or press Enter to cut; a label cuts all of its cells."}`;
      return `${sizes} ${this.kind.hint ?? `Hover or use the arrow keys for weights.${works}`}`;
    }

    key(event) {
      const step = (this.view.keys || this.kind.keys)[event.key];
      if (event.ctrlKey || event.altKey || event.metaKey || event.target !== this.place) return;
      if (event.key === "Enter") this.pick(this.focused.target, this.focused.source);
      else if (event.key === "Escape" && this.mounted.cutting) {
        if (!this.from) return;
        this.from = null;
        this.view.mark();
      } else if (event.key === "Escape") { this.breakdown.hidden = true; this.focus(null, null); }
      else if (step) {
        this.from = event.shiftKey && this.mounted.cutting ? this.from || this.focused : null;
        this.step(step);
      }
      else return;
      event.preventDefault();
    }

    step([down, across]) {
      const { target, source } = this.focused, { table } = this;
      const next = (place, by, count, kept) => (by === null ? kept : Math.max(0, Math.min(count - 1, (place ?? kept ?? 0) + by)));
      const to = [next(target, down, table.target.length, this.view.at ?? null), next(source, across, table.source.length, null)];
      this.focus(...to);
      if (this.view.reveal) this.view.reveal(...to);
    }
  }

  return Panel;
})();
