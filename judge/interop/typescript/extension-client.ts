// The official client of the tasks extension, @modelcontextprotocol/ext-tasks, as a peer of the matrix: tells in one line
// what came of a task.
//
//   node extension-client.ts http URL SCENARIO
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
    createTaskSessionFromClient, JsonRpcResponseError, resultFromTaskOutcome, type RawClientDispatch, type TaskOutcome
} from '@modelcontextprotocol/ext-tasks/client';
import type { CallToolResultV2 } from '@modelcontextprotocol/ext-tasks/core/v2';

const [, url, scenario] = process.argv.slice(2);

const clientInfo = { name: 'exttasks', version: '1.0.0' };
const clientCapabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const protocolVersion = '2026-07-28';

// The SDK's client cannot send the requests of the extension: the package frames them, and its host sends them.
let sent = 0;
const rawDispatch: RawClientDispatch = async (request, options) => {
    const { method, params } = request as { method: string; params: Record<string, string> };
    const response = await fetch(url, {
        method: 'POST',
        headers: {
            'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
            'MCP-Protocol-Version': protocolVersion, 'Mcp-Method': method, ...(params.name && { 'Mcp-Name': params.name }),
            ...options?.context?.headers
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: `raw-${++sent}`, method, params }),
        signal: options?.signal ?? null
    });
    const message = await response.json();
    return message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result };
};

const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: 'auto' } });

function completed(result: CallToolResultV2): string {
    if (result.resultType !== 'complete') return `a result of type ${result.resultType}`;
    const line = result.isError ? 'completed with isError: ' : 'completed: ';
    if (result.structuredContent !== undefined) return line + JSON.stringify(result.structuredContent);
    return line + (result.content[0]?.type === 'text' ? result.content[0].text : '');
}

function told(outcome: TaskOutcome<unknown>): string {
    if (outcome.status === 'cancelled') return 'cancelled';
    if (outcome.status === 'completed') return completed(resultFromTaskOutcome(outcome) as CallToolResultV2);
    return `failed: ${outcome.error.code} ${outcome.error.message}`;
}

function open(failures: string[]) {
    return createTaskSessionFromClient(client, {
        endpointId: 'interop', rawDispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
        onInputRequest: (async (request: { kind: string }) => {
            switch (request.kind) {
                case 'elicitation': return { action: 'accept', content: { input: 'octocat' } };
                case 'sampling': return { role: 'assistant', model: 'fixed', content: { type: 'text', text: 'Paris' } };
                default: return { roots: [{ uri: 'file:///work', name: 'work' }] };
            }
        }) as never,
        onError: error => failures.push(String(error))
    });
}

async function outcome(): Promise<string> {
    const failures: string[] = [];
    const session = open(failures);
    try {
        if (scenario === 'x_unknown') {
            try {
                return `not refused: ${JSON.stringify(await session.task('none' as never).snapshot())}`;
            } catch (error) {
                return error instanceof JsonRpcResponseError ? String(error.code) : `no JSON-RPC error: ${error}`;
            }
        }
        const execution = await session.callTool(scenario);
        if (execution.kind === 'immediate') return `immediate, ${told((await execution.settle()).outcome)}`;
        const { taskId } = execution.handle;
        if (scenario === 'x_slow') await execution.cancel();
        const first = told((await execution.settle()).outcome);
        // Read once more from the status alone, as a host does that was restarted.
        const read = session.task(taskId);
        const view = await read.snapshot();
        const again = told(await read.result());
        if (again !== first) return `${first}, but read again: ${again}`;
        if (failures.length > 0) return `${first}, with errors: ${failures}`;
        return scenario === 'x_slow' ? `${first}, and read again: ${view.status}` : first;
    } finally {
        await session.close();
    }
}

try {
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const result = { content: [{ type: 'text', text: await outcome() }] };
    console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion(), result }));
} catch (error) {
    console.error(error);
    process.exitCode = 1;
} finally {
    await client.close();
}
