// Cuts of the attention: chosen in the view, sent to the run, and its output before and with them.
import { element, percent, sign } from "./answer.js";

const byId = (id) => document.getElementById(id);
const KEPT = 0.9; // a token that keeps a smaller share of its probability is marked

export class Cuts {
  // ask(body): predict with the cuts of a body; link(list): the fragment of an address that reproduces cuts.
  constructor(ask, link) {
    Object.assign(this, { ask, link, list: [], base: null, view: null, on: false, search: "" });
    byId("view").addEventListener("regard-cut", ({ detail }) => this.add(detail));
    byId("cut-on").addEventListener("click", () => this.toggle(!this.on));
    byId("cut-head").addEventListener("click", () => this.add({ queries: null, keys: null, maps: this.view.panels[0].numbers }));
    byId("cut-undo").addEventListener("click", () => this.undo());
    byId("cut-none").addEventListener("click", () => this.change([]));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  // Another output in the view: `base` is the body that asks for its cuts, `search` how it is predicted again. The same
  // output as before keeps its cuts, another has the `chosen` ones of a link or none. Returns the body of a request, null
  // without cuts.
  begin(base, view, chosen = null, search = "") {
    const same = JSON.stringify(base) === JSON.stringify(this.base), list = chosen || (same ? this.list : []);
    Object.assign(this, { base, view, search });
    byId("cutting").hidden = false;
    this.show(list);
    return this.body;
  }

  end() {
    byId("cutting").hidden = true;
    byId("cut-result").hidden = true;
  }

  // Maps with labels of their own, such as words shaded by a rollout, do not have the model's positions.
  toggle(on) {
    this.on = on;
    for (const panel of this.view.panels) if (on && (panel.map.source || panel.map.target)) panel.choose({ map: 0 });
    this.show(this.list);
    if (on) byId("attention").scrollIntoView(); // the result covers the end of the screen
  }

  key(event) {
    if (byId("cutting").hidden || event.defaultPrevented) return;
    if (event.key === "Escape" && this.on) this.toggle(false);
    if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || !this.list.length || event.target.matches("input, textarea")) return;
    event.preventDefault();
    this.undo();
  }

  // The same cut again restores what it cut.
  add(cut) {
    const text = JSON.stringify(cut), others = this.list.filter((each) => JSON.stringify(each) !== text);
    this.change(others.length < this.list.length ? others : [...this.list, cut]);
  }

  undo() {
    this.change(this.list.slice(0, -1));
  }

  change(list) {
    this.show(list);
    byId("cut-result").hidden = list.length === 0;
    this.ask(this.body);
  }

  get body() {
    return this.list.length ? { ...this.base, cuts: this.list } : null;
  }

  // The controls, the list of cuts, and the crosses in the view.
  show(list) {
    this.list = list;
    const remove = (cut) => element("li", {}, element("button", { type: "button", title: "Remove this cut", onclick: () => { this.add(cut); byId("cut-on").focus(); } }, element("bdi", {}, this.name(cut)), " ×"));
    byId("cut-on").ariaPressed = String(this.on);
    byId("cut-list").replaceChildren(...list.map(remove));
    for (const id of ["cut-undo", "cut-none"]) byId(id).disabled = list.length === 0;
    byId("cut-link").hidden = list.length === 0 || !this.link(list);
    byId("cut-link").href = `#${this.link(list)}`;
    this.view.crossOut(list, this.on);
  }

  // A cut in words.
  name({ queries, keys, maps }) {
    const [{ lookup }] = this.view.panels, [{ layers, heads }] = lookup.maps;
    const labels = (places, side) => places.map((place) => lookup[side][place] ?? "?").join(" ").replace(/^(.{12}).+(.{6})$/u, "$1 … $2");
    const of = (layer) => maps.filter((map) => Math.floor(map / heads) === layer).map((map) => map % heads);
    const numbers = (chosen) => (chosen.length === heads ? "" : `, head${chosen.length > 1 ? "s" : ""} ${chosen.join(" ")}`);
    const places = maps && [...new Set(maps.map((map) => Math.floor(map / heads)))].map((layer) => `${layers[layer] ?? "?"}${numbers(of(layer))}`).join("; ");
    if (!queries && !keys) return `${places || "all heads"} off`;
    const edges = !queries ? `${labels(keys, "source")} hidden` : `${labels(queries, "target")} ↛ ${keys ? labels(keys, "source") : "all"}`;
    return places ? `${edges} (${places})` : edges;
  }

  // The answer of the server; returns it in a sentence.
  compare({ tokens, before, after, number, output, changed }) {
    const [old, now] = [before, after].map((values) => values.map((value) => (number ? value : Math.exp(value ?? -Infinity))));
    const shown = (value) => (number ? value.toPrecision(4) : percent(value));
    const differs = changed.map((piece, place) => piece !== output[place]), count = differs.filter((each) => each).length + Math.max(0, output.length - changed.length);
    const pieces = changed.map((piece, place) => element(differs[place] ? "mark" : "bdi", { title: differs[place] ? "changed" : "" }, sign(piece)));
    const card = (piece, place) => element("li", { className: !number && now[place] < KEPT * old[place] ? "fallen" : "" },
      element("bdi", {}, sign(piece)), element("span", {}, shown(old[place]), " → ", shown(now[place])));
    const was = output.length === 1 && count ? [" (before: ", element("bdi", {}, output[0]), ")"] : [];
    byId("cut-output").replaceChildren(`Output with the cuts${this.search ? ` (${this.search})` : ""}: `, ...pieces.flatMap((each) => [each, " "]), ...was);
    byId("cut-title").textContent = `${number ? "Predicted number" : "Probabilities"}, before → with cuts:`;
    byId("cut-tokens").replaceChildren(...tokens.map(card));
    byId("cut-result").hidden = false;
    const fallen = byId("cut-tokens").querySelector(".fallen");
    byId("cut-tokens").scrollLeft = fallen ? fallen.offsetLeft - byId("cut-tokens").offsetLeft : 0;
    const changes = output.length === 1 ? "the output changed" : `${count} of ${output.length} tokens changed`;
    return `${this.list.length} ${this.list.length === 1 ? "cut" : "cuts"}: ${count === 0 ? "the output is the same" : changes}.`;
  }
}
