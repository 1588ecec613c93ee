// A client of a kernel's server, written with a TypeScript SDK: `node outside_client.mjs KIND FOLDER < plan.json`, where
// KIND is 1, auto or legacy, and FOLDER the SDK. The plan and what is printed are those of outside_client.py.
import { readFileSync } from "node:fs"

const [kind, sdk] = process.argv.slice(2)
const plan = JSON.parse(readFileSync(0, "utf8"))
const part = (one, two) => import(`${sdk}/dist/${kind === "1" ? `esm/client/${one}.js` : `${two}.mjs`}`)
const { Client } = await part("index", "index")
const { StdioClientTransport } = await part("stdio", "stdio")
const { StreamableHTTPClientTransport } = await part("streamableHttp", "index")
const capabilities = { elicitation: { form: {} } }
const options = kind === "1" ? { capabilities } : { capabilities, versionNegotiation: { mode: kind } }
const client = new Client({ name: plan.name ?? "typescript-sdk", version: kind }, options)
const answer = async () => ({ action: "accept", content: { city: "Oslo", days: 2 } })
if (kind === "1") {
  const { ElicitRequestSchema } = await import(`${sdk}/dist/esm/types.js`)
  client.setRequestHandler(ElicitRequestSchema, answer)
} else client.setRequestHandler("elicitation/create", answer)
const headers = { Authorization: `Bearer ${plan.token}` }
await client.connect(
  plan.url
    ? new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers } })
    : new StdioClientTransport({ command: plan.command[0], args: plan.command.slice(1), env: process.env, stderr: "inherit" }),
)
const call = async (name, args) => {
  let progress = 0
  const params = { name, arguments: args }
  const onprogress = () => {
    progress += 1
    if (args.until_heard && progress === args.steps) call("shop__heard", {})
  }
  const options = { onprogress }
  const result = await (kind === "1" ? client.callTool(params, undefined, options) : client.callTool(params, options))
  const text = result.content.map((block) => block.text ?? block.type).join("\n")
  return { text, error: result.isError ?? false, progress }
}
const steps = {
  tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
  resources: async () => (await client.listResources()).resources.map((resource) => resource.uri),
  prompts: async () => (await client.listPrompts()).prompts.map((prompt) => prompt.name),
  read: async (uri) => (await client.readResource({ uri })).contents.map((part) => part.text).join("\n"),
  prompt: async (name, args) =>
    (await client.getPrompt({ name, arguments: args })).messages.map((message) => message.content.text).join("\n"),
  call,
}
const outcomes = []
for (const [name, ...values] of plan.steps)
  outcomes.push(await steps[name](...values).catch((error) => ({ failed: error.message })))
console.log(JSON.stringify({ version: client.getNegotiatedProtocolVersion?.() ?? "", outcomes }))
await client.close()
