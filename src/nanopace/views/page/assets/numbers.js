// Numbers in the page's language: with all digits under the pointer, and on an axis with enough digits to tell ticks apart.
function numbersOf(lang, units) {
  "use strict";

  const numberFormats = new Map();
  function number(value, options) {
    const key = JSON.stringify(options);
    if (!numberFormats.has(key)) numberFormats.set(key, new Intl.NumberFormat(lang, options));
    return numberFormats.get(key).format(value);
  }
  const exactly = (digits) => ({ minimumFractionDigits: digits, maximumFractionDigits: digits });
  const fixed = (value, digits) => number(value, exactly(digits));
  const percent = (value, digits) => number(value, { style: "percent", ...exactly(digits) });
  const significant = (value) => number(value, { maximumSignificantDigits: 3 });

  const CLOCK = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const MILLIS = [...CLOCK.map(([unit, size]) => [unit, 1000 * size]), ["ms", 1]];
  const timed = (text, unit) => `${text}\u00a0${units[unit]}`;

  // A time to the last useful digit: 2 d 3 h 4 min 5 s.
  function duration(seconds) {
    if (seconds < 60) return timed(fixed(seconds, 2), "s");
    const tenths = seconds < 3600 ? 1 : 0;
    let left = Number(seconds.toFixed(tenths));
    const parts = CLOCK.map(([unit, size]) => {
      const many = unit === "s" ? left : Math.floor(left / size);
      left -= many * size;
      return [many, unit];
    });
    const first = parts.findIndex(([many]) => many);
    return parts.slice(first).map(([many, unit]) => timed(fixed(many, unit === "s" ? tenths : 0), unit)).join(" ");
  }

  const HOVER = {
    count: (value) => number(value, { maximumFractionDigits: 2 }),
    tokens: (value) => number(value, { notation: "compact", maximumSignificantDigits: 7 }),
    seconds: duration,
    ms: (ms) => (ms < 1000 ? timed(fixed(ms, 2), "ms") : timed(fixed(ms / 1000, 3), "s")),
    loss: (value) => fixed(value, 4),
    share: (value) => percent(value, 2),
    rate: (value) => number(value, { notation: "compact", maximumSignificantDigits: 4 }),
    amount: (value) => number(value, { maximumFractionDigits: 2 }),
  };

  // --- labels of ticks: as many digits as their distance needs ----------------------------------------------------

  const MOST_DIGITS = 12;
  const DUST = 1e-4;

  // The number of decimals, ignoring the rounding errors of binary fractions.
  function decimals(value) {
    const exact = (shifted) => Math.abs(shifted - Math.round(shifted)) <= DUST * shifted;
    let digits = 0;
    while (digits < MOST_DIGITS && !exact(value * 10 ** digits)) digits++;
    return digits;
  }

  // All ticks of an axis in one unit: the largest in which their distance is short to write.
  function timeTicks(clock, ticks, step) {
    const most = Math.max(...ticks.map(Math.abs));
    const short = (unit, size) => decimals(step / size) <= (unit === "s" ? 4 : 1);
    const [unit, size] = clock.find(([unit, size]) => most >= size && short(unit, size)) ?? clock.at(-1);
    return ticks.map((tick) => timed(fixed(tick / size, decimals(step / size)), unit));
  }

  function compact(ticks, step) {
    const shown = (digits) => ticks.map((tick) => number(tick, { notation: "compact", maximumFractionDigits: digits }));
    const most = Math.max(...ticks.map(Math.abs), 1);
    let digits = decimals(step / 1000 ** Math.floor(Math.log10(most) / 3));
    while (digits < MOST_DIGITS && new Set(shown(digits)).size < ticks.length) digits++;
    return shown(digits);
  }

  const plain = (ticks, step) => ticks.map((tick) => fixed(tick, decimals(step)));

  const TICKS = {
    count: (ticks, step) => (Math.max(...ticks) < 1e6 ? plain(ticks, step) : compact(ticks, step)),
    tokens: compact,
    seconds: (ticks, step) => timeTicks(CLOCK, ticks, step),
    ms: (ticks, step) => timeTicks(MILLIS, ticks, step),
    loss: plain,
    share: (ticks, step) => ticks.map((tick) => percent(tick, decimals(100 * step))),
    rate: compact,
    amount: plain,
  };

  // 1, 2 and 5 of every decade are round numbers, each in a unit of its own: 500 ms, 1 s.
  const apart = (unit, ticks) => ticks.flatMap((tick) => TICKS[unit]([tick], tick));

  function tickLabels(unit, ticks, log) {
    if (!ticks.length) return [];
    const distances = ticks.slice(1).map((tick, index) => tick - ticks[index]);
    const even = distances.every((distance) => Math.abs(distance / distances[0] - 1) < 1e-3);
    return log && !even ? apart(unit, ticks) : TICKS[unit](ticks, distances[0] ?? Math.abs(ticks[0]));
  }

  return { HOVER, significant, tickLabels };
}
