// Makes `sort.expected.txt`: the order that Node gives for the arrays and comparators of the tests in `sort.rs`.
//
//     node sort.mjs > sort.expected.txt
const comparators = {
  less: (a, b) => (a < b ? -1 : 1),
  more: (a, b) => (a > b ? 1 : -1),
  flag: (a, b) => a > b,
  down: (a, b) => a < b,
  odd: (a, b) => ((a * 7 + b * 13) % 5) - 2,
  difference: (a, b) => a - b,
};
const lines = [];
for (const [name, comparator] of Object.entries(comparators)) {
  for (let seed = 0; seed < 200; seed++) {
    let state = seed;
    const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 16;
    const length = next() % [30, 100, 300, 2000][seed % 4];
    const kinds = [3, 10, 1000][next() % 3];
    const values = Array.from({ length }, (_, place) =>
      [seed % 3 === 0 ? Math.floor(place / 20) + (next() % kinds) : next() % kinds, place]);
    values.sort((a, b) => comparator(a[0], b[0]));
    const digest = values.reduce((digest, [, place]) => Math.imul(digest ^ place, 16777619) >>> 0, 2166136261);
    lines.push(`${name} ${seed} ${length} ${digest.toString(16).padStart(8, "0")}`);
  }
}
console.log(lines.join("\n"));
