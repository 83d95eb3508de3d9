// The TypeScript SDK's client as a peer of the matrix: calls a tool, and prints the revision and the result as JSON.
//
//   node client.ts http|stdio|legacy TARGET TOOL
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [how, target, tool] = process.argv.slice(2);

const client = new Client(
    { name: 'typescript', version: '1.0.0' },
    {
        capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
        versionNegotiation: { mode: how === 'legacy' ? 'legacy' : 'auto' }
    }
);
client.setRequestHandler('elicitation/create', async () =>
    tool === 't_decline' ? { action: 'decline' } : { action: 'accept', content: { name: 'octocat' } }
);
client.setRequestHandler('sampling/createMessage', async () => ({
    role: 'assistant', model: 'fixed', content: { type: 'text', text: 'Paris' }
}));
client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }));

function connect() {
    if (how !== 'stdio') return new StreamableHTTPClientTransport(new URL(target));
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args });
}

try {
    await client.connect(connect());
    const result = await client.callTool({ name: tool });
    console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion(), result }));
} catch (error) {
    console.error(String(error));
    process.exitCode = 1;
} finally {
    await client.close();
}
