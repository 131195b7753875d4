// An answer: its tokens as buttons, its attention, and the candidates for each token.
const byId = (id) => document.getElementById(id);

export const element = (tag, attributes = {}, ...children) => {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (name in found) found[name] = value;
    else found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
};

// The signs of the end and the start of a text, as in pictures.
export const sign = (piece) => ({ "</s>": "∎", "<s>": "▷" })[piece] ?? piece;

export const percent = (probability) => (probability < 0.0005 ? "< 0.1 %" : `${(100 * probability).toFixed(probability < 0.1 ? 1 : 0)} %`);

export class Answer {
  // change(place, choice): the reader chooses another token, { token }, or another beginning, { prefix }.
  constructor(change) {
    this.change = change;
    this.tokens = [];
    this.view = null;
    byId("tokens").addEventListener("keydown", (event) => this.move(event));
    byId("editor").addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(true); });
  }

  get text() {
    return this.tokens.length ? this.tokens.at(-1).text : "";
  }

  clear(before = []) {
    this.former = before;
    this.tokens = [];
    this.close();
    this.unmount();
    byId("tokens").replaceChildren();
    byId("plain").replaceChildren();
    byId("before").hidden = true;
    this.warn();
    for (const id of ["answer", "attention"]) byId(id).hidden = true;
  }

  // A growing answer has its weights only; the chosen map is kept for later.
  unmount() {
    if (!this.view) return;
    const [panel] = this.view.panels;
    if (panel.lookup.maps.length > 1) this.map = panel.map.name;
    this.view.leave();
    this.view = null;
  }

  // Another picture, in the view and of the map that were chosen for the one before.
  async mount(payload) {
    const choice = this.view && this.view.choice;
    this.unmount();
    byId("attention").hidden = payload === null;
    if (payload === null) return;
    this.view = await regard.mount(byId("view"), payload);
    if (choice) this.view.choose(choice);
    for (const panel of this.view.panels) {
      const map = panel.lookup.maps.findIndex(({ name }) => name === this.map);
      if (map > 0) panel.choose({ map });
    }
  }

  // `forced` tokens of it are a prefix; nothing can follow the token `end`.
  begin(forced, end) {
    this.forced = forced;
    this.endToken = end;
    byId("answer").hidden = false;
    byId("plain").setAttribute("aria-busy", "true");
  }

  // One more token; `grows`: later tokens can read it as well.
  add(event, grows) {
    const place = this.tokens.push(event) - 1;
    const old = this.former[place];
    const changed = this.former.length > 0 && (!old || old.token !== event.token);
    const marks = [place < this.forced ? "forced" : "", changed ? "changed" : ""].filter((each) => each);
    const button = element("button", { type: "button", className: ["token", ...marks].join(" "), tabIndex: place ? -1 : 0 });
    const piece = sign(event.piece);
    button.append(element("bdi", {}, piece));
    button.title = [...(piece === event.piece ? [] : ["end of text"]), percent(Math.exp(event.log_probability)), ...marks].join(", ");
    button.addEventListener("click", () => this.open(place, button));
    byId("tokens").append(button);
    byId("plain").textContent = event.text;
    if (!this.view || event.weights === null) return;
    const row = { target: piece, weights: event.weights };
    this.view.append(grows && place > 0 ? { ...row, source: sign(this.tokens[place - 1].piece) } : row);
  }

  end() {
    byId("plain").setAttribute("aria-busy", "false");
    const before = this.former.length ? this.former.at(-1).text : "";
    byId("before").hidden = before === "" || before === this.text;
    byId("before").replaceChildren("Before: ", element("bdi", {}, before));
  }

  // Why the answer may mean nothing, a sentence each.
  warn(warnings = []) {
    byId("warnings").hidden = warnings.length === 0;
    byId("warnings").replaceChildren(...warnings.map((each) => element("li", {}, element("bdi", {}, each))));
  }

  move(event) {
    const buttons = [...byId("tokens").children], at = buttons.indexOf(document.activeElement);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key] * (getComputedStyle(byId("tokens")).direction === "rtl" ? -1 : 1);
    const next = { Home: 0, End: buttons.length - 1 }[event.key] ?? at + step;
    if (at < 0 || Number.isNaN(next) || !buttons[next]) return;
    event.preventDefault();
    buttons.forEach((each, place) => { each.tabIndex = place === next ? 0 : -1; });
    buttons[next].focus();
  }

  close(back = false) {
    byId("editor").hidden = true;
    for (const each of byId("tokens").children) {
      if (back && each.getAttribute("aria-expanded") === "true") each.focus();
      each.removeAttribute("aria-expanded");
    }
  }

  open(place, button) {
    this.close();
    button.setAttribute("aria-expanded", "true");
    const token = this.tokens[place], choose = (each) => () => this.change(place, { token: each.token });
    const list = token.candidates.map((each) => element("li", {}, element("button", { type: "button", onclick: choose(each), disabled: each.token === this.endToken },
      element("bdi", {}, sign(each.piece)), " ", element("small", {}, percent(each.probability)))));
    const field = element("input", { value: token.text, dir: "auto", ariaLabel: "Force prefix", maxLength: 2000 });
    const form = element("form", { onsubmit: (event) => { event.preventDefault(); this.change(place, { prefix: field.value }); } },
      element("label", {}, element("span", { className: "label" }, "Force prefix "), field), element("button", { type: "submit" }, "Regenerate"));
    byId("editor").replaceChildren(element("h3", {}, "Alternatives for ", element("bdi", {}, sign(token.piece))), element("ul", {}, ...list), form);
    byId("editor").hidden = false;
    (byId("editor").querySelector("button:enabled") || field).focus();
  }
}
