// One tiny server under each generation of the TypeScript SDK: `node typescript_server.mjs PACKAGE TRANSPORT`, where
// PACKAGE is the folder of `@modelcontextprotocol/sdk` 0.x or 1.x, or of `@modelcontextprotocol/server`.
// `sse` and `http` print where they listen. It offers `add`, and `greet` (which asks for a name) where the SDK can ask.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const [folder, transport, port] = process.argv.slice(2);
const { name, version, exports: offered } = JSON.parse(readFileSync(`${folder}/package.json`));
const load = (path) => import(pathToFileURL(createRequire(`${folder}/package.json`).resolve(path)));
const numbers = { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'integer' } }, required: ['a', 'b'] };
const person = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
const text = (said) => ({ content: [{ type: 'text', text: String(said) }] });

function listen(handle) {
  const server = createServer((request, response) => {
    Promise.resolve(handle(request, response)).catch((error) => response.writeHead(500).end(String(error)));
  });
  server.listen(Number(port ?? 0), '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
}

// @modelcontextprotocol/sdk 0.x and 1.x

async function oneServer() {
  const file = (path) => load(`${name}/${path}.js`);
  const { Server } = await file('server/index');
  const types = await file('types');
  const make = () => {
    const server = new Server({ name: 'tiny', version: '1' }, { capabilities: { tools: {} } });
    const asks = typeof server.elicitInput === 'function';
    const tools = [{ name: 'add', description: 'Add two numbers.', inputSchema: numbers }];
    if (asks) tools.push({ name: 'greet', description: 'Greet somebody.', inputSchema: { type: 'object' } });
    server.setRequestHandler(types.ListToolsRequestSchema, async () => ({ tools }));
    server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
      if (params.name === 'add') return text(params.arguments.a + params.arguments.b);
      const options = { relatedRequestId: extra.requestId };
      const answer = await server.elicitInput({ message: 'Who are you?', requestedSchema: person }, options);
      return text(`Hello ${answer.content.name}`);
    });
    return server;
  };
  if (transport === 'stdio') {
    const { StdioServerTransport } = await file('server/stdio');
    await make().connect(new StdioServerTransport());
    return;
  }
  const sessions = new Map();
  if (transport === 'sse') {
    const { SSEServerTransport } = await file('server/sse');
    listen(async (request, response) => {
      const url = new URL(request.url, 'http://127.0.0.1');
      if (url.pathname === '/sse' && request.method === 'GET') {
        const session = new SSEServerTransport('/messages', response);
        sessions.set(session.sessionId, session);
        await make().connect(session);
      } else if (url.pathname === '/messages' && request.method === 'POST') {
        await sessions.get(url.searchParams.get('sessionId')).handlePostMessage(request, response);
      } else {
        response.writeHead(url.pathname === '/sse' ? 405 : 404).end();
      }
    });
    return;
  }
  const { StreamableHTTPServerTransport } = await file('server/streamableHttp');
  listen(async (request, response) => {
    let session = sessions.get(request.headers['mcp-session-id']);
    if (!session) {
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, session),
      });
      await make().connect(session);
    }
    await session.handleRequest(request, response);
  });
}

// @modelcontextprotocol/server 2.x

async function twoServer() {
  const { McpServer, fromJsonSchema, inputRequired, createMcpHandler } = await load(name);
  const make = () => {
    const server = new McpServer({ name: 'tiny', version: '1' });
    const add = { description: 'Add two numbers.', inputSchema: fromJsonSchema(numbers) };
    server.registerTool('add', add, async ({ a, b }) => text(a + b));
    server.registerTool('greet', { description: 'Greet somebody.' }, async (context) => {
      const answer = context.mcpReq.inputResponses?.person;
      if (answer) return text(`Hello ${answer.content.name}`);
      const asked = inputRequired.elicit({ message: 'Who are you?', requestedSchema: person });
      return inputRequired({ inputRequests: { person: asked } });
    });
    return server;
  };
  if (transport === 'stdio') {
    (await load(`${name}/stdio`)).serveStdio(make);
  } else {
    const { toNodeHandler } = await load('@modelcontextprotocol/node');
    listen(toNodeHandler(createMcpHandler(make)));
  }
}

await (name.endsWith('/server') ? twoServer() : oneServer());
