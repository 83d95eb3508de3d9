// The TypeScript SDK v1's client as a peer of the matrix of tasks: tells in one line what came of them.
//
//   node tasks-client.ts http|stdio TARGET SCENARIO
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
    CallToolResultSchema, CreateTaskResultSchema, ElicitRequestSchema, McpError, type CallToolResult
} from '@modelcontextprotocol/sdk/types.js';

const [how, target, scenario] = process.argv.slice(2);

const client = new Client({ name: 'typescript1', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { input: 'octocat' } }));
const tasks = client.experimental.tasks;

const text = (result: CallToolResult) => (result.content[0]?.type === 'text' ? result.content[0].text : '');
const code = async (request: Promise<unknown>) => {
    try {
        return `not refused: ${JSON.stringify(await request)}`;
    } catch (error) {
        return error instanceof McpError ? String(error.code) : `no JSON-RPC error: ${error}`;
    }
};
const start = async (name: string) => {
    const request = { method: 'tools/call' as const, params: { name, arguments: {} } };
    return (await client.request(request, CreateTaskResultSchema, { task: { ttl: 60_000 } })).task.taskId;
};

async function outcome(): Promise<string> {
    switch (scenario) {
        case 'k_ask':
        case 'k_fail':
        case 'k_required': {
            let taskId = '';
            // Which tools are tasks it knows from their list.
            for await (const message of tasks.callToolStream({ name: scenario, arguments: {} }, CallToolResultSchema)) {
                if (message.type === 'taskCreated') taskId = message.task.taskId;
                if (message.type === 'result' && scenario === 'k_required') return text(message.result as CallToolResult);
                if (message.type === 'result') return `${(await tasks.getTask(taskId)).status}: ${text(message.result as CallToolResult)}`;
                // Why a task failed, the stream does not tell.
                if (message.type === 'error' && taskId !== '') {
                    const result = await tasks.getTaskResult(taskId, CallToolResultSchema);
                    return `${(await tasks.getTask(taskId)).status}: ${text(result)}`;
                }
                if (message.type === 'error') throw message.error;
            }
            return 'the stream ended without a result';
        }
        case 'k_refused': {
            const request = { method: 'tools/call' as const, params: { name: 'k_required', arguments: {} } };
            return code(client.request(request, CallToolResultSchema));
        }
        case 'k_slow': {
            const taskId = await start(scenario);
            await tasks.cancelTask(taskId);
            const again = await code(tasks.cancelTask(taskId));
            return `${(await tasks.getTask(taskId)).status}, again ${again}`;
        }
        case 'k_list': {
            const started = [await start('k_ask'), await start('k_ask')];
            const listed = (await tasks.listTasks()).tasks.map(task => task.taskId);
            const all = String(started.sort()) === String(listed.sort());
            return `all listed: ${all}, another ${await code(tasks.getTask('none'))}`;
        }
        default:
            throw new Error(`unknown scenario ${scenario}`);
    }
}

function connect() {
    if (how === 'http') return new StreamableHTTPClientTransport(new URL(target));
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args });
}

// The SDK tells a transport which revision the session has.
const transport: Transport = connect();
const withVersion = transport.setProtocolVersion?.bind(transport);
let revision = '';
transport.setProtocolVersion = version => {
    revision = version;
    withVersion?.(version);
};

try {
    await client.connect(transport);
    await client.listTools();
    console.log(JSON.stringify({ revision, result: { content: [{ type: 'text', text: await outcome() }] } }));
} catch (error) {
    console.error(String(error));
    process.exitCode = 1;
} finally {
    await client.close();
}
