// One look at one lookup's choice of map, layer and head, in one of the views.
regard.Panel = (() => {
  const { element, number } = regard.page;

  const select = (label, options, value, change) => {
    const found = element("select", { ariaLabel: label, onchange: () => change(JSON.parse(found.value)) },
      ...options.map(([name, each]) => element("option", { value: JSON.stringify(each), selected: each === value }, name)));
    return element("label", { className: "regard-choice" }, element("span", {}, label), found);
  };

  return class Panel {
    constructor(mounted, choice) {
      this.mounted = mounted;
      this.own = { lookup: 0, map: 0, layer: null, head: null, ...choice };
      this.focused = { target: null, source: null };
      this.choices = element("div", { className: "regard-choices" });
      this.place = element("div", { className: "regard-place", tabIndex: 0, role: "application" });
      this.said = element("output", { className: "regard-said", ariaLive: "polite" });
      this.worked = element("div", { className: "regard-worked", hidden: true });
      this.element = element("section", { className: "regard-panel" }, this.choices, this.place, this.said, this.worked);
      this.place.addEventListener("keydown", (event) => this.key(event));
      this.place.addEventListener("focus", () => { if (this.focused.target === null) this.focus(0, 0); });
    }

    get lookup() {
      return this.mounted.lookups[this.own.lookup];
    }

    get choice() {
      return { ...this.mounted.choice, ...this.own };
    }

    choose(some) {
      Object.assign(this.own, some);
      if ("lookup" in some) Object.assign(this.own, { map: 0, layer: null, head: null });
      this.render();
    }

    // Draws everything anew: after another choice, or more data.
    render() {
      this.table = this.lookup.table(this.choice);
      const View = regard.views[this.mounted.choice.view];
      if (!(this.view instanceof View)) {
        if (this.view) this.view.leave();
        this.view = new View(this);
        this.place.replaceChildren(this.view.element);
      }
      this.place.ariaLabel = `${View.title} of ${this.lookup.name || "attention"}. Arrow keys move, Enter works a lookup out.`;
      this.menus();
      this.view.render();
      this.say();
    }

    menus() {
      const { lookups } = this.mounted, one = this.lookup, count = (many) => [...Array(many).keys()];
      const menus = [];
      if (lookups.length > 1) menus.push(select("Lookups", lookups.map((each, i) => [each.name || `${i}`, i]), this.own.lookup, (lookup) => this.choose({ lookup })));
      if (one.maps.length > 1) menus.push(select("Map", one.maps.map((each, i) => [each.name, i]), this.own.map, (map) => this.choose({ map })));
      if (one.layers.length > 1) menus.push(select("Layer", [["mean of all", null], ...one.layers.map((name, i) => [name, i])], this.own.layer, (layer) => this.choose({ layer })));
      if (one.heads > 1) menus.push(select("Head", [["mean of all", null], ...count(one.heads).map((i) => [`${i}`, i])], this.own.head, (head) => this.choose({ head })));
      const active = [...this.choices.querySelectorAll("select")].indexOf(document.activeElement);
      this.choices.replaceChildren(...menus);
      if (active >= 0) this.choices.querySelectorAll("select")[active].focus();
    }

    // Where the reader looks: a target, a source label, both or neither. Other panels follow.
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

    pick(target, source) {
      this.focus(target, source);
      this.place.focus({ preventScroll: true });
      this.mounted.tell("regard-pick", { lookup: this.own.lookup, ...this.focused });
    }

    say() {
      const { target, source } = this.focused, { table } = this;
      const parts = [];
      if (source !== null) parts.push(element("bdi", {}, table.source[source]));
      if (target !== null) parts.push(element("span", { ariaLabel: "read by" }, "→"), element("bdi", {}, table.target[target]));
      if (target !== null && source !== null) parts.push(element("b", {}, number(table.rows[target][source] || 0)));
      this.said.replaceChildren(...parts);
    }

    key(event) {
      const step = regard.views[this.mounted.choice.view].keys[event.key];
      if (event.ctrlKey || event.altKey || event.metaKey || event.target !== this.place) return;
      if (event.key === "Enter") this.pick(this.focused.target, this.focused.source);
      else if (event.key === "Escape") this.focus(null, null);
      else if (step) {
        const { target, source } = this.focused;
        const next = (place, by, labels) => Math.max(0, Math.min(labels.length - 1, (place ?? 0) + by));
        const at = [next(target, step[0], this.table.target), next(source, step[1], this.table.source)];
        this.focus(...at);
        if (this.view.reveal) this.view.reveal(...at);
      } else return;
      event.preventDefault();
    }
  };
})();
