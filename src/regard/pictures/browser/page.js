// Parts of a page: elements with plain text only, colours of weights, and the user's preferences.
regard.page = (() => {
  const element = (tag, attributes = {}, ...children) => {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
      else if (name in found && name !== "list") found[name] = value;
      else if (value !== null && value !== false) found.setAttribute(name, value);
    }
    found.append(...children.filter((each) => each !== null));
    return found;
  };

  const night = matchMedia("(prefers-color-scheme: dark)");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = () => night.matches;
  const variable = (host, name) => getComputedStyle(host).getPropertyValue(name).trim();

  const parts = (hex) => [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
  const palettes = { light: regard.palettes.light.map(parts), dark: regard.palettes.dark.map(parts) };
  const below = { light: [163, 63, 0], dark: [255, 176, 122] };

  // The colour of a share of the scale: blue above 0, orange below.
  const colour = (share) => {
    const theme = dark() ? "dark" : "light", size = Math.min(Math.abs(share), 1);
    if (share >= 0) return palettes[theme][Math.round(size * 255)];
    return palettes[theme][0].map((from, i) => Math.round(from + (below[theme][i] - from) * size));
  };
  const css = (rgb) => `rgb(${rgb.join(" ")})`;

  // Pixels of shares of the scale, row by row, from a table of 511 colours for -1 to 1.
  const pixels = (width, height, shareOf) => {
    const ramp = Uint32Array.from({ length: 511 }, (_, step) => {
      const [r, g, b] = colour((step - 255) / 255);
      return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    });
    const image = new ImageData(width, height), points = new Uint32Array(image.data.buffer);
    for (let place = 0; place < points.length; place++) {
      points[place] = ramp[255 + Math.round(255 * Math.max(-1, Math.min(1, shareOf(place))))];
    }
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  };

  // An image of bytes, row by row, of one channel or three.
  const photograph = (bytes, width, height, channels) => {
    const image = new ImageData(width, height), canvas = new OffscreenCanvas(width, height);
    for (let place = 0; place < width * height; place++) {
      for (let part = 0; part < 3; part++) image.data[4 * place + part] = bytes[channels * place + (channels === 1 ? 0 : part)];
      image.data[4 * place + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  };

  // Black or white, whichever has more contrast with a colour.
  const ink = (rgb) => {
    const [r, g, b] = rgb.map((each) => (each / 255) ** 2.2);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#10141c" : "#ffffff";
  };

  const number = (value) => {
    if (value === 0) return "0";
    if (Math.abs(value) >= 10) return value.toFixed(2);
    return Math.abs(value) < 0.0005 ? value.toExponential(1) : value.toFixed(3);
  };

  return { element, night, calm, dark, variable, colour, css, pixels, photograph, ink, number };
})();
