// regard.mount(element, payload, settings = {}): put the component on an element of any page. Settings are strings:
// those of choose(), and map, layer, head, target, source and compare for the first display.
regard.mount = (() => {
  const { element, night, number } = regard.page;

  class Mounted {
    constructor(host, payload, lookups) {
      const { title, details = [], compare = 1, view: chosen } = payload;
      const first = lookups[0], text = first.target.length === 1 || first.shown > 0 ? "reading" : "matrix";
      const view = chosen ?? (first.patches ? "image" : first.images ? "images" : first.sentences ? "document" : text);
      Object.assign(this, { host, lookups, second: compare, cuts: [], cutting: false, choice: { view, threshold: null, words: false, zoom: 0, shade: "auto" } });
      this.panels = [new regard.Panel(this, { map: first.shown })];
      this.bar = element("div", { className: "regard-bar", role: "toolbar", ariaLabel: "View" });
      this.area = element("div", { className: "regard-panels" });
      host.classList.add("regard");
      host.replaceChildren(...(title ? [element("h1", { dir: "auto" }, title)] : []),
        ...details.map((each) => element("p", { className: "regard-detail", dir: "auto" }, each)), this.bar, this.area);
      this.repaint = () => this.render();
      night.addEventListener("change", this.repaint);
      if (!("compare" in payload)) this.panels[0].concentrate();
      this.controls();
      this.render();
    }

    get comparing() {
      return this.panels.length > 1;
    }

    render() {
      this.area.replaceChildren(...this.panels.map((panel) => panel.element));
      this.area.classList.toggle("regard-two", this.comparing);
      this.panels.forEach((panel) => panel.render());
      if (this.comparing) this.flush();
      this.synchronise();
    }

    // Two matrices begin at the same place, whatever the lengths of their labels.
    flush() {
      const views = this.panels.map((panel) => panel.view).filter((view) => view.widen);
      if (views.length < 2) return;
      const most = (name) => Math.max(...views.map((view) => view[name]));
      const room = [most("left"), most("top")];
      views.forEach((view) => view.widen(...room));
    }

    // Weights below it are hidden: the reader's choice, or by default that of lines.
    get threshold() {
      return this.choice.threshold ?? (this.panels[0].shown === "lines" ? regard.views.lines.least : 0);
    }

    // Offer the views that have a meaning for a visible map, and the controls of the visible view.
    offer() {
      const [{ shown, lookup, map }] = this.panels;
      this.tabs.forEach(([name, tab]) => Object.assign(tab, { hidden: !this.panels.some((panel) => panel.fits(name)), ariaPressed: String(name === shown) }));
      this.shades.hidden = shown !== "matrix" && (shown !== "heads" || regard.data.onPatches(lookup, map));
      this.size.hidden = shown !== "matrix";
      this.cut.hidden = ["heads", "table"].includes(shown);
    }

    // Set the controls to the current choice.
    synchronise() {
      this.offer();
      const { shade, words, zoom } = this.choice, { threshold } = this, { cut, shades, size, joins } = this, scales = this.scales();
      const input = (label) => label.querySelector("input, select");
      Object.assign(input(cut), { value: threshold });
      cut.querySelector("output").textContent = scales.join() === "0 to 1" ? threshold : `${Math.round(100 * threshold)} %`;
      shades.querySelector("option").textContent = scales.length === 1 ? scales[0] : "each map's scale";
      Object.assign(input(shades), { value: shade });
      Object.assign(input(size), { value: zoom || 20 });
      Object.assign(input(joins), { checked: words });
    }

    // The scales of the visible maps, each once.
    scales() {
      const shown = (scale) => (scale === 1 ? "1" : number(scale));
      const range = ({ scale, signed }) => `${signed ? `−${shown(scale)}` : 0} to ${shown(scale)}`;
      return [...new Set(this.panels.map(({ map }) => range(map)))];
    }

    controls() {
      const { lookups } = this, button = (text, onclick) => element("button", { type: "button", onclick }, text);
      const fitting = Object.entries(regard.views).filter(([, View]) => lookups.some((each) => each.maps.some((map) => View.fits(each, map))));
      this.tabs = fitting.map(([name, View]) => [name, button(View.title, () => this.choose({ view: name }))]);
      const threshold = element("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0, oninput: () => this.choose({ threshold: Number(threshold.value) }) });
      this.cut = element("label", { className: "regard-choice" }, element("span", {}, "Minimum weight"), threshold, element("output", {}, "0"));
      const wide = element("input", { type: "range", min: 2, max: 40, step: 1, value: 20, oninput: () => this.choose({ zoom: Number(wide.value) }) });
      this.size = element("label", { className: "regard-choice" }, element("span", {}, "Cell size"), wide);
      const shades = element("select", { onchange: () => this.choose({ shade: shades.value }) },
        element("option", { value: "fixed" }, "0 to 1"), element("option", { value: "largest" }, "0 to the maximum"), element("option", { value: "auto" }, "automatic"));
      this.shades = element("label", { className: "regard-choice" }, element("span", {}, "Color scale"), shades);
      const words = element("input", { type: "checkbox", onchange: () => this.choose({ words: words.checked }) });
      this.joins = element("label", { className: "regard-choice", hidden: !lookups.some((each) => each.words) }, words, element("span", {}, "Whole words"));
      this.twice = button("Compare", () => this.compare(!this.comparing));
      this.bar.replaceChildren(element("div", { className: "regard-tabs", role: "group", ariaLabel: "Views" }, ...this.tabs.map(([, tab]) => tab)),
        this.cut, this.shades, this.size, this.joins, this.twice, regard.share.buttons(this));
    }

    // Apply the settings of a link to this page.
    begin({ map, layer, head, target, source, compare, threshold, words, zoom, ...others }) {
      const numbers = { map, layer, head }, [panel] = this.panels;
      const given = Object.entries(numbers).filter(([, value]) => value !== undefined);
      Object.assign(panel.own, Object.fromEntries(given.map(([name, value]) => [name, /^\d+$/.test(value) ? Number(value) : value])));
      panel.fit();
      if (others.view in regard.views) this.choice.view = others.view;
      if (others.shade) this.choice.shade = others.shade;
      Object.assign(this.choice, { threshold: threshold === undefined ? null : Number(threshold) || 0, zoom: Number(zoom) || 0, words: words === "1" });
      if (compare) this.compare(true);
      else this.render();
      if (layer === undefined && head === undefined) this.panels.forEach((each) => each.opened());
      this.render();
      const place = (value) => (value === undefined ? null : Number(value));
      if (target !== undefined || source !== undefined) panel.pick(place(target), place(source));
    }

    // choose({ view, threshold, words, zoom, shade }): settings of all panels.
    choose(some) {
      Object.assign(this.choice, some);
      if ("view" in some) this.panels.forEach((panel) => panel.opened());
      this.render();
    }

    // Two panels side by side: the second shows the compared lookups, or else the next map, head or layer of the same ones.
    compare(on) {
      if (on) {
        const [{ own, lookup, map }] = this.panels, next = { ...own };
        if (this.lookups.length > 1) {
          next.lookup = (own.lookup + this.second) % this.lookups.length;
          next.map = Math.max(0, this.lookups[next.lookup].maps.findIndex(({ name }) => name === map.name));
        } else if (lookup.maps.length > 1) next.map = (own.map + 1) % lookup.maps.length;
        else if (map.heads > 1) next.head = typeof own.head === "number" ? (own.head + 1) % map.heads : 0;
        else if (map.layers.length > 1) next.layer = own.layer === null ? 0 : (own.layer + 1) % map.layers.length;
        this.panels.push(new regard.Panel(this, next));
        this.panels.at(-1).fit();
      } else this.panels.splice(1).forEach((panel) => panel.view.leave());
      this.twice.textContent = on ? "Single view" : "Compare";
      this.render();
    }

    // append({ target, weights, source, note, others }, lookup = 0): one more target label with its row.
    append(row, lookup = 0) {
      this.lookups[lookup].append(row);
      this.render();
    }

    // Cross out the edges of `cuts`, each { queries, keys, maps } with null for all. While `cutting`, a click or Enter does
    // not explain an edge but fires the event `regard-cut` with such a cut.
    crossOut(cuts, cutting) {
      Object.assign(this, { cuts, cutting });
      this.panels.forEach((panel) => panel.render()); // in place, so that the focus stays
      if (this.comparing) this.flush();
    }

    // Mark the same labels in the other panel, if it has them.
    follow(from, at) {
      const { counterpart } = regard.data;
      for (const panel of this.panels.filter((each) => each !== from)) {
        panel.focus(...["target", "source"].map((side) => counterpart(at[side], from.table[side], panel.table[side])), false);
      }
      this.emit("regard-focus", { lookup: from.own.lookup, ...at });
    }

    emit(name, detail) {
      this.host.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
    }

    leave() {
      night.removeEventListener("change", this.repaint);
      this.panels.forEach((panel) => panel.view.leave());
      this.host.replaceChildren();
    }
  }

  return async (host, payload, settings = {}) => {
    if (payload.format !== 1) throw new Error(`lookups in format ${payload.format}; this page reads format 1`);
    const lookups = await Promise.all(payload.lookups.map(regard.data.lookups));
    const mounted = new Mounted(host, payload, lookups), first = "compare" in payload ? { compare: "1", ...settings } : settings;
    if (Object.keys(first).length) mounted.begin(first);
    return mounted;
  };
})();
