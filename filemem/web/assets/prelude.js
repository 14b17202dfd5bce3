// What a script of a caller meets: the functions it may ask for, a console, and how its value is told.
(names, host, say, settled) => {
  const {stringify, parse} = JSON, promise = Promise, evaluate = eval;
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
  const perform = (name, given) => {
    const {value, error} = parse(host(name, stringify(given) ?? ""));
    if (error !== undefined) throw new Error(error);
    return value;
  };
  for (const name of parse(names)) globalThis[name] = (...given) => perform(name, given);
  const log = (...parts) => { say(parts.map(shown).join(" ")); };
  globalThis.console = {log, info: log, warn: log, error: log, debug: log};
  const failed = error => { settled("null", told(error)); };
  const finished = value => {
    try {
      settled(stringify(value) ?? "null", "");
    } catch (error) { failed(error); }
  };
  return code => { try { promise.resolve(evaluate(code)).then(finished, failed); } catch (error) { failed(error); } };
}
