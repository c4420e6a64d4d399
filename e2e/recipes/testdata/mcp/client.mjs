// A client of the MCP TypeScript SDK that sends its requests to several nodes in turn. Arguments: HOST:PORT ...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const nodes = process.argv.slice(2);
let sent = 0;
const transport = new StreamableHTTPClientTransport(new URL(`http://${nodes[0]}/mcp`), {
  fetch: (url, init) => {
    const target = new URL(url);
    target.host = nodes[sent++ % nodes.length];
    return fetch(target, init);
  },
});
const client = new Client({ name: 'recipe', version: '1' });
await client.connect(transport);
let calls = 0;
for (let i = 0; i < 9; i++) {
  const result = await client.callTool({ name: 'greet', arguments: { name: `Ada ${i}` } });
  if (result.content[0].text === `Hello, Ada ${i}!`) calls++;
}
await transport.terminateSession();
await client.close();
console.log(`${calls} calls`);
