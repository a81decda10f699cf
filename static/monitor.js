// Draws the tables of the monitor page. Without this file the tables remain.
(() => {
  "use strict";

  const NARROW = 480;
  const SILENT = 30_000;
  const SILENCE = "The server does not answer, or you are signed out. This is the last known state.";
  const SLICES = ["ink", "warn", "accent", "good", "bad", "ink-quiet", "line-strong"];
  const charts = new Map();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
  const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const tone = (name) => ink(name === "quiet" || !name ? "line-strong" : name);

  function told(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit !== "seconds") return Number(value).toLocaleString("en");
    if (value < 1) return `${Math.round(value * 1000)} ms`;
    return value < 90 ? `${Number(value.toPrecision(3))} s` : `${Number((value / 60).toPrecision(3))} min`;
  }

  // What a table says: names of its rows, and one series for each column that is drawn.
  function read(table) {
    const rows = [...table.tBodies[0].rows];
    const names = rows.map((row) => row.cells[0]);
    const isTime = Boolean(names[0]?.querySelector("time"));
    const moments = isTime ? names.map((cell) => new Date(cell.dataset.value)) : [];
    const isLong = isTime && moments.at(-1) - moments[0] > 26 * 3600e3;
    const series = [...table.tHead.rows[0].cells].flatMap((head, column) =>
      "drawn" in head.dataset
        ? [{
            name: head.textContent,
            tone: head.dataset.tone,
            values: rows.map((row) => (row.cells[column].dataset.value === "" ? null : Number(row.cells[column].dataset.value))),
          }]
        : [],
    );
    return {
      kind: table.dataset.chart,
      unit: table.dataset.unit ?? "",
      names: isTime
        ? moments.map((moment) => (isLong ? `${dayFormat.format(moment)}, ${clockFormat.format(moment)}` : clockFormat.format(moment)))
        : names.map((cell) => cell.textContent),
      links: names.map((cell, row) => (cell.querySelector("a") ?? rows[row].cells[1].querySelector("a"))?.getAttribute("href") ?? null),
      isLong,
      series,
    };
  }

  function axis(more) {
    return {
      axisLine: { lineStyle: { color: ink("line") } },
      axisTick: { show: false },
      axisLabel: { color: ink("ink-quiet"), hideOverlap: true },
      splitLine: { lineStyle: { color: ink("line") } },
      ...more,
    };
  }

  function option(data, width) {
    const text = { color: ink("ink-quiet") };
    const common = {
      animation: false,
      aria: { enabled: true },
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      tooltip: {
        // Drawn on the canvas: the page's security policy forbids the style attributes of the other way.
        renderMode: "richText",
        confine: true,
        trigger: data.kind === "bars" || data.kind === "lines" ? "axis" : "item",
        backgroundColor: ink("card"),
        borderColor: ink("line"),
        textStyle: { color: ink("ink"), fontSize: 12 },
        valueFormatter: (value) => told(value, data.unit),
      },
      grid: { left: 8, right: 12, top: 34, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      legend: { top: 0, left: 0, itemWidth: 12, itemHeight: 8, textStyle: text, inactiveColor: ink("line-strong") },
    };
    const label = data.isLong ? { formatter: (name) => name.split(",")[0] } : {};
    const times = axis({ type: "category", data: data.names });
    times.axisLabel = { ...times.axisLabel, ...label };
    const amounts = axis({ type: "value", minInterval: data.unit ? 0 : 1 });
    amounts.axisLabel = { ...amounts.axisLabel, formatter: (value) => told(value, data.unit) };
    switch (data.kind) {
      case "bars":
        return { ...common, xAxis: times, yAxis: amounts, series: data.series.map((each) => ({ type: "bar", stack: "all", name: each.name, data: each.values, color: tone(each.tone) })) };
      case "lines":
        return { ...common, xAxis: times, yAxis: amounts, series: data.series.map((each) => ({ type: "line", name: each.name, data: each.values, color: tone(each.tone), symbolSize: 5, showAllSymbol: true })) };
      case "pie": {
        const slices = data.names.map((name, row) => ({ name, row, value: data.series[0].values[row], itemStyle: { color: ink(SLICES[row]) } }));
        const shown = slices.filter((slice) => slice.value);
        return {
          ...common,
          legend: { ...common.legend, orient: "vertical", top: "middle", left: width < NARROW ? 200 : "58%", data: shown.map((slice) => slice.name) },
          series: [{ type: "pie", radius: ["52%", "82%"], center: [width < NARROW ? 94 : "28%", "50%"], label: { show: false }, itemStyle: { borderColor: ink("card"), borderWidth: 2 }, data: shown }],
        };
      }
      case "ranks":
        return {
          ...common,
          legend: undefined,
          grid: { ...common.grid, top: 4 },
          xAxis: amounts,
          yAxis: axis({ type: "category", inverse: true, data: data.names }),
          series: data.series.map((each) => ({ type: "bar", name: each.name, data: each.values, color: tone(each.tone), barMaxWidth: 22 })),
        };
      default: {
        const most = Math.max(1, ...data.series.flatMap((each) => each.values));
        const isNarrow = width < NARROW;
        return {
          ...common,
          legend: undefined,
          grid: { ...common.grid, top: 4, bottom: 4 },
          tooltip: { ...common.tooltip, formatter: ({ value: [bucket, channel, count] }) => `${data.names[channel]}, ${data.series[bucket].name}: ${told(count, "")}` },
          xAxis: axis({ type: "category", data: data.series.map((each) => each.name), splitLine: { show: false } }),
          yAxis: axis({ type: "category", inverse: true, data: data.names, splitLine: { show: false } }),
          visualMap: { show: false, min: 0, max: most, inRange: { color: [ink("sunk"), ink("accent")] } },
          series: [{
            type: "heatmap",
            data: data.series.flatMap((each, bucket) => each.values.map((count, channel) => [bucket, channel, count])),
            label: { show: !isNarrow, formatter: ({ value }) => (value[2] ? told(value[2], "") : "") },
            itemStyle: { borderColor: ink("card"), borderWidth: 2 },
          }],
        };
      }
    }
  }

  // Where a chart is drawn. An answer of the server knows nothing of it, so it is put back after each; all of them
  // before anything is measured, so that the page is never shorter than it was and keeps its place.
  function placeOf(card) {
    const numbers = card.querySelector(".chart-numbers");
    let kept = charts.get(card.id);
    if (!kept) {
      // With the chart there, the numbers are a click away; what somebody opens stays so.
      numbers.open = false;
      const place = document.createElement("div");
      place.className = "chart";
      place.setAttribute("aria-hidden", "true");
      kept = { place, chart: null, said: "", links: [] };
      charts.set(card.id, kept);
    }
    if (numbers.previousElementSibling !== kept.place) numbers.before(kept.place);
    return kept;
  }

  function heightOf(data) {
    return data.kind === "heat" || data.kind === "ranks" ? Math.max(110, 44 + 30 * data.names.length) : 220;
  }

  function drawOne(kept, data) {
    const said = JSON.stringify([data, dark.matches, kept.place.clientWidth]);
    if (said === kept.said) return;
    kept.said = said;
    kept.links = data.links;
    if (!kept.chart) {
      kept.chart = window.echarts.init(kept.place, null, { height: heightOf(data) });
      kept.chart.on("click", (event) => {
        const row = data.kind === "pie" ? event.data.row : event.dataIndex;
        if (kept.links[row] && (data.kind === "pie" || data.kind === "ranks")) location.assign(kept.links[row]);
      });
    }
    kept.chart.resize({ height: heightOf(data) });
    kept.chart.setOption(option(data, kept.place.clientWidth), true);
  }

  // Did the library not arrive, the tables stay open.
  function draw() {
    if (!window.echarts) return;
    const tables = [...document.querySelectorAll("#monitor table[data-chart]")];
    const cards = tables.map((table) => table.closest(".chart-card"));
    const places = cards.map(placeOf);
    tables.forEach((table, number) => drawOne(places[number], read(table)));
    for (const [id, kept] of charts) {
      if (cards.some((card) => card.id === id)) continue;
      kept.chart?.dispose();
      charts.delete(id);
    }
  }

  // Whoever looks at old numbers has to know it.
  let heardAt = Date.now();
  let at = "";

  function listen() {
    const said = document.getElementById("monitor").dataset.at;
    if (said !== at) heardAt = Date.now();
    at = said;
    const bar = document.getElementById("monitor-notice");
    const isSilent = Date.now() - heardAt > SILENT;
    if (bar.hidden === isSilent) {
      bar.hidden = !isSilent;
      bar.className = isSilent ? "live-notice" : "";
      bar.textContent = isSilent ? SILENCE : "";
    }
  }

  function follow() {
    listen();
    draw();
  }

  document.querySelector(".top-nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  follow();
  new MutationObserver(follow).observe(document.getElementById("main"), { childList: true, subtree: true, attributes: true, attributeFilter: ["data-value", "data-at"] });
  setInterval(listen, 5_000);
  dark.addEventListener("change", draw);
  addEventListener("resize", draw);
})();
