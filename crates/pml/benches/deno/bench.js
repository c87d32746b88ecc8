// What a new Deno worker without permissions costs: started, given `return 1+1`, answered.
// And what a call from inside costs: message out, message back.

const median = (samples) => samples.sort((a, b) => a - b)[samples.length >> 1];
const url = new URL("./worker.js", import.meta.url).href;

function start() {
  return new Worker(url, { type: "module", deno: { permissions: "none" } });
}

function run(worker, code, onCall) {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.call !== undefined) {
        onCall();
        worker.postMessage({ answer: true, id: data.call });
      } else {
        resolve(data.result);
      }
    };
    worker.onerror = reject;
    worker.postMessage({ code });
  });
}

const starts = [];
for (let i = 0; i < 40; i++) {
  const started = performance.now();
  const worker = start();
  await run(worker, "return 1+1");
  starts.push(performance.now() - started);
  worker.terminate();
}

const gaps = [];
const worker = start();
let last;
await run(worker, "for (let i = 0; i < 2000; i++) await call({ i })", () => {
  const now = performance.now();
  if (last !== undefined) gaps.push(now - last);
  last = now;
});
worker.terminate();

console.log(JSON.stringify({ worker_ms: median(starts), rpc_us: median(gaps) * 1000 }));
