// Draws what `data-plot` names. Figures come as JSON; what is newer comes when there is news.
"use strict";
(() => {
  const css = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };
  const short = (value) => (value == null ? "–" : value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2));

  const lines = {
    rate: (data) => [
      { label: "measured", values: data.measured, colour: "plot-measured", width: 2 },
      { label: "projected", values: data.projected, colour: "plot-projected", dash: [7, 4] },
      { label: "target", values: data.target, colour: "plot-target", dash: [2, 3], step: true },
    ],
    usd: (data, figure) => [
      { label: "USD/h", values: data.usdPerHour, colour: "plot-money", width: 2, step: true },
      ...(figure.dataset.budget
        ? [{ label: "budget", values: data.at.map(() => Number(figure.dataset.budget)), colour: "plot-target", dash: [2, 3] }]
        : []),
    ],
  };

  const draw = (figure, data) => {
    const box = figure.querySelector(".canvas"), what = lines[figure.dataset.kind](data, figure);
    figure.plot?.destroy();
    box.textContent = "";
    if (data.at.length < 2) {
      const none = document.createElement("p");
      none.className = "empty dim";
      none.textContent = "Nothing to draw yet: a point is added at each look at the fleet.";
      box.append(none);
      return;
    }
    const ink = css("dim"), grid = { stroke: css("line"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid };
    const clock = (at) => new Date(at * 1000).toISOString();
    const times = (_, ticks) => ticks.map((at) => (at % 86400 === 0 ? clock(at).slice(5, 10) : clock(at).slice(11, at % 60 ? 19 : 16)));
    figure.plot = new uPlot({
      width: box.clientWidth,
      height: figure.classList.contains("small") ? 130 : 230,
      scales: { x: { min: Math.max(data.from, data.at[0]), max: data.until }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] } },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      axes: [{ ...axis, space: 60, values: times }, { ...axis, size: 54, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) }],
      cursor: { drag: { x: false, y: false } },
      series: [
        { label: "at", value: (_, at) => (at == null ? "–" : `${clock(at).slice(0, 16).replace("T", " ")} UTC`) },
        ...what.map((line) => ({
          label: line.label,
          stroke: css(line.colour),
          width: line.width ?? 1.5,
          dash: line.dash,
          points: { show: false },
          paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
          value: (_, value) => short(value),
        })),
      ],
    }, [data.at, ...what.map((line) => line.values)], box);
    const ends = what.map((line) => `${line.label} ${short(line.values.at(-1))}`).join(", ");
    box.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent}; last: ${ends}`);
    box.removeAttribute("aria-labelledby");
  };

  const kept = new Map();
  const get = async (address) => {
    const answer = await fetch(address, { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  };
  const columns = ["at", "measured", "projected", "target", "usdPerHour"];
  const load = (address) => {
    const before = kept.get(address);
    const wanted = (async () => {
      const old = before && (await before.catch(() => null));
      if (!old || !old.at.length) return get(address);
      const news = await get(`${address}&since=${old.at.at(-1)}`);
      const first = old.at.findIndex((at) => at >= news.from);
      for (const column of columns) news[column] = [...old[column].slice(Math.max(0, first)), ...news[column]];
      return news;
    })();
    kept.set(address, wanted);
    return wanted;
  };
  const show = async (fresh) => {
    const figures = [...document.querySelectorAll("[data-plot][data-kind]")], found = new Map();
    for (const figure of figures) {
      const address = figure.dataset.plot;
      if (!found.has(address)) found.set(address, fresh || !kept.has(address) ? load(address) : kept.get(address));
      try {
        draw(figure, await found.get(address));
      } catch (error) {
        kept.delete(address);
        figure.querySelector(".canvas").textContent = `The figures cannot be read just now (${error.message}).`;
      }
    }
  };
  let at = Date.now();
  document.addEventListener("news", () => {
    if (Date.now() - at < 15000) return; // a day or a week: a point more or less is not seen
    at = Date.now();
    show(true);
  });
  document.addEventListener("theme", () => show(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(false));
  let wait = null;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(show, 200, false); });
  show(true);
})();
