// Draws the tables of the monitor page. Without this file the tables remain.
(() => {
  "use strict";

  const { locale, timeZone, say } = globalThis.exportdesk;
  const NARROW = 480;
  const SLICES = ["ink", "warn", "accent", "good", "bad", "ink-quiet", "line-strong"];
  const charts = new Map();
  const AXIS_WIDTH = 90;
  const DAY_WIDTH = 54;
  const KEY_WIDTH = 17;
  const LEGEND_GAP = 10;
  const LEGEND_ROW = 20;
  const MARK_ROWS = 2;
  const MARK_GAP = 8;
  const MARK_HEIGHT = 14;
  const pen = document.createElement("canvas").getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const dayFormat = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone });
  const clockFormat = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", timeZone });

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const tone = (name) => ink(name === "quiet" || !name ? "line-strong" : name);

  function told(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit !== "seconds") return Number(value).toLocaleString(locale);
    if (!value) return "0";
    if (value < 1) return say("{n} ms", { n: Math.round(value * 1000) });
    return value < 90 ? say("{n} s", { n: Number(value.toPrecision(3)) }) : say("{n} min", { n: Number((value / 60).toPrecision(3)) });
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
            // A time that leads nowhere by itself leads where the count of its row does.
            links: rows.map((row) => (row.cells[column].querySelector("a") ?? (table.dataset.unit ? row.querySelector("td > a") : null))?.href),
          }]
        : [],
    );
    return {
      kind: table.dataset.chart,
      unit: table.dataset.unit ?? "",
      names: isTime
        ? moments.map((moment) => (isLong ? `${dayFormat.format(moment)}, ${clockFormat.format(moment)}` : clockFormat.format(moment)))
        : names.map((cell) => cell.textContent),
      marks: rows.flatMap((row, number) => (row.dataset.mark ? [{ row: number, versions: row.dataset.mark.split(", ") }] : [])),
      isTime,
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

  // How high the legend is: names that do not fit beside each other go on below.
  function legendHeight(data, width) {
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    let [rows, right] = [1, 0];
    for (const { name } of data.series) {
      const wide = LEGEND_GAP + KEY_WIDTH + pen.measureText(name).width;
      if (right && right + wide > width) [rows, right] = [rows + 1, 0];
      right += wide;
    }
    return 14 + rows * LEGEND_ROW;
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
      grid: { left: 8, right: 12, top: legendHeight(data, width), bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      legend: { top: 0, left: 0, itemWidth: 12, itemHeight: 8, textStyle: text, inactiveColor: ink("line-strong") },
    };
    // The day, where it begins: of so many that they fit every second, third, … one, up to the last.
    const day = (row) => data.names[row].split(",")[0];
    const begins = data.isLong ? data.names.flatMap((_, row) => (row && day(row) === day(row - 1) ? [] : [row])) : [];
    const every = Math.ceil((begins.length * DAY_WIDTH) / (width - AXIS_WIDTH));
    const shown = begins.reverse().filter((_, number) => number % every === 0);
    const label = data.isLong ? { formatter: (_, row) => day(row), interval: (row) => shown.includes(row) } : {};
    const times = axis({ type: "category", data: data.names });
    times.axisLabel = { ...times.axisLabel, ...label };
    const amounts = axis({ type: "value", minInterval: data.unit ? 0 : 1 });
    amounts.axisLabel = { ...amounts.axisLabel, formatter: (value) => told(value, data.unit) };
    switch (data.kind) {
      case "bars":
        return { ...common, xAxis: times, yAxis: amounts, series: data.series.map((each) => ({ type: "bar", stack: "all", name: each.name, data: each.values, color: tone(each.tone) })) };
      case "lines":
        return {
          ...common,
          grid: { ...common.grid, top: 34 + (data.marks.length ? 4 + MARK_ROWS * MARK_HEIGHT : 0) },
          legend: { ...common.legend, type: "scroll" },
          xAxis: times,
          yAxis: amounts,
          series: data.series.map((each) => ({ type: "line", name: each.name, data: each.values, color: tone(each.tone), symbolSize: 6, showAllSymbol: true })),
        };
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
        const isRoomy = width >= NARROW && (!data.isTime || data.names.length <= 12);
        const buckets = data.series.map((each) => each.name);
        const plain = (names, more) => axis({ type: "category", data: names, splitLine: { show: false }, ...more });
        return {
          ...common,
          legend: undefined,
          grid: { ...common.grid, top: 4, bottom: 4 },
          tooltip: { ...common.tooltip, formatter: ({ data: { row, bucket, count } }) => `${data.names[row]}, ${buckets[bucket]}: ${told(count, "")}` },
          xAxis: data.isTime ? times : plain(buckets),
          yAxis: data.isTime ? plain(buckets) : plain(data.names, { inverse: true }),
          visualMap: { show: false, dimension: 2, min: 0, max: most, inRange: { color: [ink("sunk"), ink("accent")] } },
          series: [{
            type: "heatmap",
            progressive: 0,
            data: data.series.flatMap((each, bucket) => each.values.map((count, row) => ({ value: data.isTime ? [row, bucket, count] : [bucket, row, count], row, bucket, count }))),
            label: { show: isRoomy, formatter: ({ data: { count } }) => (count ? told(count, "") : "") },
            itemStyle: { borderColor: ink("card"), borderWidth: data.isTime ? 1 : 2 },
          }],
        };
      }
    }
  }

  // Where new versions first ran. A name that would meet the one right of it stands higher; what fits nowhere is counted
  // on that one. Where there is no width, as while nothing is shown, no name is.
  function marks(data, width, xOf) {
    const fontSize = width < NARROW ? 10 : 12;
    pen.font = `${fontSize}px ${getComputedStyle(document.body).fontFamily}`;
    const begins = Array(MARK_ROWS).fill(width + MARK_GAP);
    let last = null;
    const placed = [...data.marks].reverse().map(({ row: xAxis, versions }) => {
      const [x, name] = [xOf(xAxis), versions.at(-1)];
      const wide = pen.measureText(`${name} +99`).width;
      const align = x < wide / 2 ? "left" : x > width - wide / 2 ? "right" : "center";
      const begin = { left: x, right: x - wide, center: x - wide / 2 }[align];
      const row = begins.findIndex((next) => begin + wide + MARK_GAP <= next);
      if (row < 0) {
        if (last) last.more += versions.length;
        return { xAxis };
      }
      begins[row] = begin;
      last = { xAxis, name, more: versions.length - 1, row, align };
      return last;
    });
    return {
      silent: true,
      symbol: "none",
      animation: false,
      lineStyle: { color: ink("ink-quiet"), type: "dashed" },
      data: placed.map(({ xAxis, name, more, row, align }) => ({
        xAxis,
        label: {
          show: Boolean(name),
          formatter: more ? `${name} +${more}` : name,
          color: ink("ink-quiet"),
          fontSize,
          align,
          distance: 4 + (row ?? 0) * MARK_HEIGHT,
        },
      })),
    };
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
      kept = { place, chart: null, said: "", data: null };
      charts.set(card.id, kept);
    }
    if (numbers.previousElementSibling !== kept.place) numbers.before(kept.place);
    return kept;
  }

  function heightOf(data) {
    if (data.kind === "heat" && data.isTime) return 300;
    return data.kind === "heat" || data.kind === "ranks" ? Math.max(110, 44 + 30 * data.names.length) : 220;
  }

  // Where what was clicked leads: to the list that it counts.
  function linkOf(data, event) {
    const { row = event.dataIndex, bucket = event.seriesIndex } = event.data ?? {};
    return data.series[bucket]?.links[row];
  }

  function drawOne(kept, data) {
    const said = JSON.stringify([data, dark.matches, kept.place.clientWidth]);
    if (said === kept.said) return;
    kept.said = said;
    kept.data = data;
    if (!kept.chart) {
      kept.chart = window.echarts.init(kept.place, null, { height: heightOf(data) });
      kept.chart.on("click", (event) => {
        const link = event.componentType === "series" && linkOf(kept.data, event);
        if (link) location.assign(link);
      });
    }
    kept.chart.resize({ height: heightOf(data) });
    const width = kept.place.clientWidth;
    kept.chart.setOption(option(data, width), true);
    if (!data.marks.length || !data.series.length) return;
    const xOf = (row) => kept.chart.convertToPixel({ seriesIndex: 0 }, [row, 0])[0];
    kept.chart.setOption({ series: [{ markLine: marks(data, width, xOf) }] });
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

  document.querySelector(".top-nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  draw();
  new MutationObserver(draw).observe(document.getElementById("main"), { childList: true, subtree: true, attributes: true, attributeFilter: ["data-value", "data-mark"] });
  dark.addEventListener("change", draw);
  addEventListener("resize", draw);
})();
