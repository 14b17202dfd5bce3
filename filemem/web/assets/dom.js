/* The only maker of elements. What a record says becomes text, never markup; HTML that the server rendered passes `safe`. */
"use strict";

const Dom = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  /** Set attributes (functions named on... listen; null and false are left out) and append children (arrays are flattened). */
  function furnish(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value == null || value === false) continue;
      if (typeof value === "function") node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...real(children));
    return node;
  }
  const real = (children) => children.flat(Infinity).filter((child) => child != null && child !== false && child !== "" && child !== 0);
  /** Put these children in the place of those that a node has. */
  const put = (node, ...children) => node.replaceChildren(...real(children));

  const h = (name, attributes, ...children) => furnish(document.createElement(name), attributes, children);
  const s = (name, attributes, ...children) => furnish(document.createElementNS(SVG, name), attributes, children);
  const $ = (id) => document.getElementById(id);

  // Characters that turn the direction of the text around them, and other invisible ones.
  const UNSEEN = /[\u0000-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  const line = (text) => String(text ?? "").replace(UNSEEN, " ").replace(/\s+/g, " ").trim();

  /* One shape for each state, in a box of 14 around 0,0: told apart without colour. */
  const disc = (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  const SHAPES = {
    holds: disc(4.8),
    open: disc(4.2),
    part: `${disc(4.9)}${disc(3.5)}M0 -3.5A3.5 3.5 0 0 1 0 3.5Z`,
    dead: "M-3.6 -3.6L3.6 3.6M3.6 -3.6L-3.6 3.6",
    gone: disc(3.6),
    fork: "M0 5.2V0.4L-4.4 -4.6M0 0.4L4.4 -4.6",
    other: "M-3.6 -3.6H3.6V3.6H-3.6Z",
  };
  const glyph = (kind) => s("path", { class: "glyph", d: SHAPES[kind] });
  const icon = (kind) =>
    s("svg", { class: `icon k-${kind}`, width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, glyph(kind));

  /* The width of a text is the sum of its characters': a little too much where letters kern, never too little. */
  const pen = document.createElement("canvas").getContext("2d");
  const widths = new Map();
  function measure(text, most = Infinity) {
    if (!widths.size) pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    let sum = 0;
    for (const sign of text) {
      let width = widths.get(sign);
      if (width === undefined) widths.set(sign, (width = pen.measureText(sign).width));
      if ((sum += width) > most) return sum;
    }
    return sum;
  }
  /** The text, cut to a width with an ellipsis: after a word, so that it reads well, if twelve characters are left. */
  function fit(text, room) {
    if (measure(text, room) <= room) return text;
    let sum = measure("…");
    let end = 0;
    for (const sign of text) {
      sum += measure(sign);
      if (sum > room) break;
      end += sign.length;
    }
    const word = text.lastIndexOf(" ", end);
    const cut = text.slice(0, word > 11 ? word : end).replace(/[\s,;:(–-]+$/, "");
    return cut ? `${cut}…` : "";
  }

  const KEPT = new Set("P BR EM STRONG CODE PRE UL OL LI BLOCKQUOTE H1 H2 H3 H4 H5 H6 HR TABLE THEAD TBODY TR TH TD A DEL S SUP SUB".split(" "));
  /** Rendered Markdown as nodes: known tags without attributes; links of the web alone, and images as links, so that nothing is fetched. */
  function safe(html) {
    const from = new DOMParser().parseFromString(html || "", "text/html").body;
    const copy = (node) => {
      if (node.nodeType === Node.TEXT_NODE) return node.data;
      if (node.nodeType !== Node.ELEMENT_NODE) return null;
      const address = node.getAttribute(node.tagName === "IMG" ? "src" : "href") || "";
      const web = /^https?:/.test(address) ? { href: address, rel: "noreferrer noopener", target: "_blank" } : {};
      if (node.tagName === "IMG") return h("a", web, node.alt || address);
      const children = [...node.childNodes].map(copy);
      if (!KEPT.has(node.tagName)) return children;
      const name = /^H\d$/.test(node.tagName) ? "h4" : node.tagName.toLowerCase();
      const made = h(name, { ...(name === "a" ? web : {}), ...(name === "pre" ? { tabindex: 0 } : {}) }, children);
      return name === "table" ? h("div", { class: "wide", tabindex: 0 }, made) : made;
    };
    return h("div", { class: "prose", dir: "auto" }, [...from.childNodes].map(copy));
  }

  return { h, s, $, put, line, glyph, icon, SHAPES, measure, fit, safe };
})();
