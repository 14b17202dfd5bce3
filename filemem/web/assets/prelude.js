// What a script of a caller meets: the functions it may ask for, a console, and how its value is told.
(names, host, say, settled, handled) => {
  const {stringify, parse} = JSON, {defineProperty, hasOwn} = Object, promise = Promise, evaluate = eval;
  const unheeded = new Set();
  const told = error => {
    if (error === null) return "null was thrown, as the engine does when memory runs out";
    try { return error instanceof Error ? `${error.name}: ${error.message}` : String(error); }
    catch { return "an error that cannot be told"; }
  };
  const shown = value => {
    if (typeof value === "string") return value;
    try { return value instanceof Error ? told(value) : stringify(value) ?? String(value); }
    catch { return told(value); }
  };
  const asked = (value, promised) => {
    for (const way of ["then", "catch", "finally"])
      defineProperty(value, way, {value: (...given) => promised()[way](...given)});
    return value;
  };
  const refused = error => {
    unheeded.add(error);
    return new Proxy(asked({}, () => promise.reject(error)), {get: (target, name) => {
      unheeded.delete(error);
      if (hasOwn(target, name)) return target[name];
      throw error;
    }});
  };
  const perform = (name, given) => {
    const text = host(name, stringify(given) ?? ""), {value, error} = parse(text);
    // There at once, and a promise all the same. So a failure is thrown at once, but where promises handle failures.
    if (error === undefined) return asked(value, () => new promise(done => done(parse(text).value)));
    if (handled) return refused(new Error(error));
    throw new Error(error);
  };
  for (const name of parse(names)) globalThis[name] = (...given) => perform(name, given);
  const log = (...parts) => { say(parts.map(shown).join(" ")); };
  globalThis.console = {log, info: log, warn: log, error: log, debug: log};
  const failed = error => { settled("null", told(error)); };
  const finished = value => {
    try {
      const text = stringify(value) ?? "null";
      for (const error of unheeded) throw error;
      settled(text, "");
    } catch (error) { failed(error); }
  };
  return code => { try { promise.resolve(evaluate(code)).then(finished, failed); } catch (error) { failed(error); } };
}
