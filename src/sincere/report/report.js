"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("points").textContent);
  const tip = document.getElementById("tip");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  root.classList.add("js");

  // Light, dark, or as the system has it.
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  let theme = 0;
  const showTheme = () => {
    if (theme) root.dataset.theme = themes[theme]; else delete root.dataset.theme;
    button.textContent = "Colours: " + themes[theme];
    maps.forEach((map) => map.recolour());
  };
  button.addEventListener("click", () => { theme = (theme + 1) % themes.length; showTheme(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => maps.forEach((map) => map.recolour()));

  // Tabs: one visible panel, arrow keys move between them.
  const asTabs = (list, onChange) => {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    const choose = (index) => {
      tabs.forEach((tab, place) => {
        tab.setAttribute("aria-selected", String(place === index));
        tab.tabIndex = place === index ? 0 : -1;
      });
      onChange(index);
    };
    tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => choose(index));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (index + step + tabs.length) % tabs.length;
        tabs[next].focus();
        choose(next);
      });
    });
    return choose;
  };

  const colourOf = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const hasWebGL = () => {
    try {
      const canvas = document.createElement("canvas");
      return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
    } catch (error) { return false; }
  };

  // What a person would want to see of a sample: built from text nodes only, so that no data becomes markup.
  const element = (tag, kind, words) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (words !== undefined) made.textContent = words;
    return made;
  };
  const fillTip = (run, point) => {
    const content = data.contents[run.content];
    const sheet = content.sheet;
    tip.replaceChildren();
    if (sheet) {
      const scale = Math.max(1, Math.floor(112 / Math.max(sheet.width, sheet.height)));
      const image = element("div", "image");
      image.style.width = sheet.width * scale + "px";
      image.style.height = sheet.height * scale + "px";
      image.style.backgroundImage = `url(${sheet.uri})`;
      image.style.backgroundSize = `${sheet.columns * sheet.tile * scale}px auto`;
      const row = Math.floor(point / sheet.columns), column = point % sheet.columns;
      image.style.backgroundPosition = `${-column * sheet.tile * scale}px ${-row * sheet.tile * scale}px`;
      tip.append(image);
    }
    if (content.texts && content.texts[point]) tip.append(element("p", "words", content.texts[point]));
    const line = element("div", "", "class ");
    line.append(element("b", "", run.classes[run.labels[point]]));
    tip.append(line);
    if (run.predicted) {
      const wrong = run.predicted[point] !== run.labels[point];
      const said = element("div", wrong ? "wrong" : "", wrong ? "✗ predicted " : "predicted ");
      said.append(element("b", "", run.classes[run.predicted[point]]));
      tip.append(said);
    }
    tip.append(element("small", "", "sample " + run.samples[point].toLocaleString("en")));
  };
  const placeTip = (x, y) => {
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x + 16), window.innerWidth - box.width - 8);
    const below = y + 16 + box.height < window.innerHeight;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, below ? y + 16 : y - 16 - box.height) + "px";
  };
  const hideTip = () => { tip.style.display = "none"; };

  // One interactive map a run; drawn when it is first seen.
  const makeMap = (holder) => {
    const run = data.runs[Number(holder.dataset.run)];
    const plot = holder.querySelector(".plot");
    const note = holder.querySelector(".how");
    const select = holder.querySelector("select");
    let shown = run.first, drawn = false, pointer = [0, 0];
    const present = [...new Set(run.labels)].sort((a, b) => a - b);
    const few = present.length <= 20;
    plot.addEventListener("pointermove", (event) => { pointer = [event.clientX, event.clientY]; }, true);
    plot.addEventListener("pointerdown", (event) => { pointer = [event.clientX, event.clientY]; }, true);
    plot.addEventListener("pointerleave", hideTip);

    const traces = (projection) => {
      const solid = projection.points.length === 3;
      const type = solid ? "scatter3d" : "scatter";
      const at = (places) => Object.fromEntries(["x", "y", "z"].slice(0, projection.points.length)
        .map((axis, number) => [axis, places.map((place) => projection.points[number][place])]));
      const own = (label) => run.labels.flatMap((value, place) => (value === label ? [place] : []));
      const chosen = select.value === "" ? null : Number(select.value);
      const made = [], names = brief(narrow() ? 13 : 24); // on a phone two of them stand side by side
      if (solid) made.push(...sphere());
      present.forEach((label) => {
        const places = own(label);
        const pale = chosen !== null && chosen !== label;
        const symbol = solid ? ({ "triangle-up": "cross", pentagon: "diamond-open", star: "square-open" }[run.symbols[label]] || run.symbols[label]) : run.symbols[label];
        made.push({ type, mode: "markers", name: plain(names.get(label)), ...at(places), customdata: places,
          hoverinfo: "none", opacity: pale ? 0.1 : 0.85, showlegend: few,
          marker: { color: run.colours[label], symbol, size: solid ? 4 : coarse ? 8 : 7, line: { width: 0 } } });
      });
      if (run.predicted) {
        const wrong = run.labels.flatMap((value, place) => (value !== run.predicted[place] && (chosen === null || chosen === value) ? [place] : []));
        if (wrong.length) {
          made.push({ type, mode: "markers", name: "classified wrong", ...at(wrong), hoverinfo: "skip", showlegend: true,
            marker: { symbol: "circle-open", color: colourOf("--ink"), size: solid ? 8 : 13, line: { width: 1.6, color: colourOf("--ink") } } });
          // Of points that lie on each other plotly shows the smallest: a mistake, which is what people look for.
          made.push({ type, mode: "markers", name: "classified wrong", ...at(wrong), customdata: wrong, hoverinfo: "none", showlegend: false,
            marker: { color: wrong.map((place) => run.colours[run.labels[place]]), size: solid ? 3 : 5, line: { width: 0 } } });
        }
      }
      return made;
    };
    const sphere = () => {
      const lines = { type: "scatter3d", mode: "lines", hoverinfo: "skip", showlegend: false, x: [], y: [], z: [], line: { color: colourOf("--grid"), width: 1 } };
      const ring = (f) => { for (let t = 0; t <= 48; t++) { const [x, y, z] = f(t * Math.PI / 24); lines.x.push(x); lines.y.push(y); lines.z.push(z); } ["x", "y", "z"].forEach((k) => lines[k].push(null)); };
      for (let k = 0; k < 6; k++) ring((t) => [Math.cos(t) * Math.cos(k * Math.PI / 6), Math.cos(t) * Math.sin(k * Math.PI / 6), Math.sin(t)]);
      for (let k = -2; k <= 2; k++) ring((t) => [Math.cos(t) * Math.cos(k * Math.PI / 6), Math.sin(t) * Math.cos(k * Math.PI / 6), Math.sin(k * Math.PI / 6)]);
      return [lines];
    };
    // Plotly reads a little markup in names: class names are shown as they are.
    const plain = (words) => words.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("$", "&#36;");
    // A legend takes the room of its longest name from the map; the tip has the whole.
    const cut = (words, most, end) => { const signs = [...words.trim()]; return signs.length > most ? signs.slice(0, most - 1 - end).join("") + "…" + signs.slice(signs.length - end).join("") : signs.join("") || "(no name)"; };
    // Names that would look alike are cut in the middle, where they keep their different ends.
    const brief = (most) => {
      const times = new Map();
      present.forEach((label) => { const name = cut(run.classes[label], most, 0); times.set(name, (times.get(name) || 0) + 1); });
      return new Map(present.map((label) => [label, cut(run.classes[label], most, times.get(cut(run.classes[label], most, 0)) > 1 ? Math.floor((most - 1) / 2) : 0)]));
    };
    const layout = (projection) => {
      const solid = projection.points.length === 3;
      const bare = { showgrid: false, zeroline: false, showticklabels: false, ticks: "", showline: false, visible: false };
      const made = { margin: { l: 4, r: 4, t: coarse ? 14 : 34, b: 4 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: colourOf("--faint"), activecolor: colourOf("--ink") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: colourOf("--ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
        hovermode: "closest", hoverdistance: coarse ? 30 : 14, dragmode: solid ? "orbit" : coarse ? false : "pan",
        showlegend: few || Boolean(run.predicted), legend: { itemsizing: "constant", orientation: narrow() ? "h" : "v", ...(narrow() ? { y: -0.02, yanchor: "top" } : {}) } };
      if (solid) made.scene = { xaxis: bare, yaxis: bare, zaxis: bare, aspectmode: "cube", camera: { eye: { x: 1.2, y: 1.2, z: 0.8 } } };
      else {
        made.xaxis = bare;
        made.yaxis = { ...bare, scaleanchor: "x" };
        const names = brief(narrow() ? 10 : 16);
        made.annotations = named(projection).map((label) => {
          const [x, y] = projection.names[label];
          return { x, y, yshift: few ? 14 : 10,
            text: `<b>${plain(names.get(label))}</b>`, showarrow: false, font: { size: few ? (narrow() ? 11 : 13) : 9.5 }, bgcolor: colourOf("--paper"), opacity: 0.82, borderpad: 1, captureevents: false };
        });
      }
      return made;
    };
    const narrow = () => plot.clientWidth < 520;
    const named = (projection) => present.filter((label) => projection.names[label]);
    // Names that would cover each other move up or down by their own height, as little as it takes; of many classes those
    // stay that hide no other class. What finds no room goes.
    const apart = (projection) => {
      if (projection.points.length === 3) return;
      const room = plot.getBoundingClientRect(), taken = [], changes = {}, labels = named(projection), { xaxis, yaxis } = plot._fullLayout;
      const xs = projection.points[0].map((x) => room.left + xaxis._offset + xaxis.d2p(x)), ys = projection.points[1].map((y) => room.top + yaxis._offset + yaxis.d2p(y));
      const hides = (box, label) => xs.filter((x, place) => run.labels[place] !== label && x > box.left && x < box.right && ys[place] > box.top && ys[place] < box.bottom).length
        > run.labels.filter((one) => one === label).length / 4;
      const free = (box, label) => box.top > room.top && box.bottom < room.bottom && (few || !hides(box, label))
        && !taken.some((one) => box.left < one.right && one.left < box.right && box.top < one.bottom && one.top < box.bottom);
      [...plot.querySelectorAll(".annotation")].map((one) => [Number(one.dataset.index), one.getBoundingClientRect()])
        .sort(([, a], [, b]) => a.top - b.top).forEach(([index, box]) => {
          const moved = (steps) => ({ left: box.left, right: box.right, top: box.top + steps * box.height, bottom: box.bottom + steps * box.height });
          const steps = (few ? [0, -1, 1, -2, 2, -3, 3, -4, 4] : [0]).find((tried) => free(moved(tried), labels[index]));
          if (steps === undefined) { changes[`annotations[${index}].visible`] = false; return; }
          taken.push(moved(steps));
          if (steps) changes[`annotations[${index}].yshift`] = plot.layout.annotations[index].yshift - steps * box.height;
        });
      if (Object.keys(changes).length) Plotly.relayout(plot, changes);
      if (taken.length < present.length) note.textContent = `${projection.note} ${taken.length} of ${present.length} classes have their name here.`;
    };
    const draw = () => {
      const projection = run.projections[shown];
      note.textContent = projection.note;
      holder.classList.remove("fails");
      if (projection.points.length === 3 && !hasWebGL()) {
        note.textContent = "This browser has no WebGL, so the sphere cannot be turned here: a still picture stands in for it.";
        holder.classList.add("fails");
        return;
      }
      const options = { displaylogo: false, responsive: true, displayModeBar: coarse ? false : "hover", scrollZoom: false,
        modeBarButtons: [projection.points.length === 3 ? ["orbitRotation", "zoom3d", "resetCameraDefault3d"] : ["pan2d", "zoom2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
      Plotly.react(plot, traces(projection), layout(projection), options).then(() => apart(projection));
      if (drawn) return;
      drawn = true;
      const show = (event) => {
        const point = event.points && event.points[0];
        if (!point || point.customdata === undefined) return;
        const sample = Array.isArray(point.customdata) ? point.customdata[0] : point.customdata;
        fillTip(run, sample);
        placeTip(pointer[0], pointer[1]);
      };
      plot.on("plotly_hover", show);
      plot.on("plotly_click", show);
      if (!coarse) plot.on("plotly_unhover", hideTip);
    };
    asTabs(holder.querySelector(".choices"), (index) => { shown = index; hideTip(); if (drawn || holder.classList.contains("fails")) { Plotly.purge(plot); drawn = false; } draw(); });
    select.addEventListener("change", draw);
    return { holder, draw: () => { if (!drawn) draw(); }, recolour: () => { if (drawn) draw(); } };
  };
  const maps = [...document.querySelectorAll(".map")].map(makeMap);
  const visible = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) { maps.find((map) => map.holder === entry.target).draw(); visible.unobserve(entry.target); }
  }), { rootMargin: "300px" });

  // Runs as tabs; a switch stays at the section that was being looked at.
  const panels = [...document.querySelectorAll(".panel")];
  let active = 0;
  const sectionInView = () => [...panels[active].querySelectorAll("[data-section]")].reverse()
    .find((part) => part.getBoundingClientRect().top < window.innerHeight * 0.4);
  const showPanel = (index, keep) => {
    const before = keep ? sectionInView() : null;
    const offset = before ? before.getBoundingClientRect().top : 0;
    active = index;
    panels.forEach((panel, place) => { panel.hidden = place !== index; });
    hideTip();
    const same = before && panels[index].querySelector(`[data-section="${before.dataset.section}"]`);
    if (same) window.scrollBy(0, same.getBoundingClientRect().top - offset);
  };
  const list = document.querySelector(".tabs");
  if (list) asTabs(list, (index) => showPanel(index, true));
  showPanel(0, false);
  document.querySelectorAll(".bar nav a[data-goto]").forEach((link) => link.addEventListener("click", (event) => {
    const target = panels[active].querySelector(`[data-section="${link.dataset.goto}"]`);
    if (!target) return;
    event.preventDefault();
    target.tabIndex = -1; // the next Tab goes on from here
    target.focus({ preventScroll: true });
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    target.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
  }));
  document.addEventListener("scroll", hideTip, { passive: true });
  maps.forEach((map) => visible.observe(map.holder));
})();
