// The other side of bench.js: runs the code it is given, with one function to call out.

const pending = new Map();
let lastId = 0;
const call = (args) =>
  new Promise((resolve) => {
    pending.set(++lastId, resolve);
    self.postMessage({ call: lastId, args });
  });

self.onmessage = async ({ data }) => {
  if (data.code !== undefined) {
    const AsyncFunction = (async () => {}).constructor;
    const result = await new AsyncFunction("call", data.code)(call);
    self.postMessage({ result });
  } else {
    pending.get(data.id)(data.answer);
    pending.delete(data.id);
  }
};
