// Labels as elements that can be pointed at: what lines, reading, document and image have in common.
regard.tokens = (() => {
  const { element, colour, css, ink, dark, number } = regard.page;

  // A label of a side, "source" or "target".
  const token = (panel, side, place, label = panel.table[side][place]) => {
    return element("span", {
      className: "regard-token",
      "data-side": side,
      "data-place": place,
      onmouseenter: () => panel.focus(...panel.view.cell(side, place)),
      onmouseleave: () => panel.unfocus(),
      onclick: () => panel.pick(...panel.view.cell(side, place)),
    }, label === "" ? " " : label);
  };

  const shade = (found, share) => {
    const rgb = share ? colour(share) : null;
    found.style.background = rgb ? css(rgb) : "";
    found.style.color = rgb ? ink(rgb) : "";
  };

  const greatest = (row) => row.reduce((most, each) => Math.max(most, Math.abs(each)), 0);

  // What a shade stands for, in words and colours: up to `most`, of a table or a map.
  const key = (most, { name, signed, amounts }, whose = "") => {
    const shown = amounts ? number(most) : most >= 0.01 ? most.toFixed(2) : most.toExponential(1);
    const said = [amounts ? `${name}, not shares` : "", whose].filter((each) => each).join("; ");
    const ramp = element("span", { className: "regard-ramp", ariaHidden: "true" });
    const ends = signed ? [-1, 1] : [0, 1];
    for (let i = 0; i <= 10; i++) {
      const step = element("i");
      step.style.background = css(colour(ends[0] + ((ends[1] - ends[0]) * i) / 10));
      ramp.append(step);
    }
    return element("p", { className: "regard-key" }, signed ? `−${shown}` : "0", ramp, shown === "1.00" ? "1" : shown, said ? element("span", {}, said) : null);
  };

  // How the greatest weight looks on this page.
  const strongest = () => (dark() ? "lightest" : "darkest");

  // Whose size the fixed scale of a table or a map ends with, where that is not 1.
  const whole = ({ amounts }) => (amounts ? `${strongest()}: the largest of all layers and heads` : "");

  return { token, shade, greatest, key, strongest, whole };
})();
