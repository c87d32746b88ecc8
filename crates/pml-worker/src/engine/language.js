// What the engine's language shows a program of itself: stacks of errors and the text of functions.
//
// Called once, after the prelude, with the same `native` and with what the prelude gives back.
export default function language(native, prelude) {
  "use strict";

  const { DOMException, Error, Function, Object, Promise, Reflect, String } = globalThis;
  const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const hide = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";

  // ── Stacks ─────────────────────────────────────────────────────────────────────────────────

  const { stackOf, genuine } = prelude;
  const errorText = uncurry(Error.prototype.toString);
  const isPrepared = () => typeof Error.prepareStackTrace === "function";
  /// What is thrown, and where, in the program's own lines.
  const shown = (error, frames) => {
    let first = "Error";
    try { first = errorText(error); } catch {}
    const places = native.remapStack(frames);
    return places === "" ? first : first + "\n" + places;
  };
  const stack = {
    get stack() {
      const noted = isObject(this) ? genuine(this)?.stack : undefined;
      const frames = noted ?? stackOf(this);
      return typeof frames === "string" && !isPrepared() ? shown(this, frames) : frames;
    },
    set stack(value) { hide(this, "stack", value); },
  };
  defineProperty(Error.prototype, "stack", { __proto__: null, ...getOwnPropertyDescriptor(stack, "stack"), enumerable: false });

  const capture = Error.captureStackTrace;
  hide(Error, "captureStackTrace", {
    captureStackTrace(target, above) {
      const holder = {};
      apply(capture, Error, [holder, above ?? Error.captureStackTrace]);
      const frames = holder.stack;
      hide(target, "stack", typeof frames === "string" && !isPrepared() ? shown(target, frames) : frames);
    },
  }.captureStackTrace);

  // ── Promises ───────────────────────────────────────────────────────────────────────────────

  // Reasons that a program reads in results, where no `catch` is.
  const { allSettled } = Promise;
  const then = uncurry(Promise.prototype.then);
  const explainAll = (outcomes) => {
    for (let i = 0; i < outcomes.length; i++) if (outcomes[i].status === "rejected") native.explain(outcomes[i].reason);
    return outcomes;
  };
  hide(Promise, "allSettled", {
    allSettled(values) {
      const settled = apply(allSettled, this, [values]);
      return this === Promise ? then(settled, explainAll) : settled;
    },
  }.allSettled);

  // ── Functions ──────────────────────────────────────────────────────────────────────────────

  const functionText = uncurry(Function.prototype.toString);
  hide(Function.prototype, "toString", { toString() { return native.functionText(functionText(this)); } }.toString);
}
