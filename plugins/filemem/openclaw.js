// Recall for OpenClaw: what the project has decided, told when an agent starts. Made by `make plugins`.
import { spawn } from "node:child_process"

const START = { command: "command -v filemem >/dev/null 2>&1 && filemem hook start || exit 0", input: { hook_event_name: "SessionStart", source: "startup" } }
const PROMPT = { command: "command -v filemem >/dev/null 2>&1 && filemem hook prompt-first || exit 0", input: { hook_event_name: "UserPromptSubmit" } }

const ask = ({ command, input }, more) =>
  new Promise((resolve) => {
    const child = spawn("sh", ["-c", command], { cwd: more.cwd, timeout: 5000, stdio: ["pipe", "pipe", "ignore"] })
    let text = ""
    child.stdout.on("data", (data) => (text += data))
    child.stdin.on("error", () => {})
    child.on("error", () => resolve(""))
    child.on("close", () => resolve(text))
    child.stdin.end(JSON.stringify({ ...input, ...more }))
  })
    .then((text) => (text ? JSON.parse(text).hookSpecificOutput.additionalContext : ""))
    .catch(() => "")

export default {
  id: "filemem",
  name: "filemem",
  register(api) {
    const told = new Set()
    api.on("after_compaction", async (_event, ctx) => void told.delete(ctx?.sessionKey))
    api.on("before_prompt_build", async (event, ctx) => {
      const cwd = api.pluginConfig?.folder || ctx?.workspaceDir || process.cwd()
      const more = { cwd, session_id: ctx?.sessionId || ctx?.sessionKey || "openclaw", prompt: event?.prompt || "" }
      const said = told.has(ctx?.sessionKey) ? [] : [await ask(START, more)]
      told.add(ctx?.sessionKey)
      said.push(await ask(PROMPT, more))
      const text = said.filter(Boolean).join("\n\n")
      return text ? { prependContext: text } : undefined
    })
  },
}
