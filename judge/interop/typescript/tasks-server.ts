// The TypeScript SDK v1's server as a peer of the matrix of tasks.
//
//   node tasks-server.ts http     prints its URL, and serves sessions of 2025-11-25
//   node tasks-server.ts stdio    serves standard input and output
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

import type { CreateTaskRequestHandlerExtra } from '@modelcontextprotocol/sdk/experimental/tasks';
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitResultSchema, isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';

const taskStore = new InMemoryTaskStore();
const taskMessageQueue = new InMemoryTaskMessageQueue();

function newServer(): McpServer {
    const server = new McpServer(
        { name: 'typescript1', version: '1.0.0' },
        { capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }, taskStore, taskMessageQueue }
    );
    const tool = (
        name: string,
        taskSupport: 'optional' | 'required',
        run: (extra: CreateTaskRequestHandlerExtra, taskId: string) => Promise<string>
    ) =>
        server.experimental.tasks.registerToolTask(name, { inputSchema: {}, execution: { taskSupport } }, {
            async createTask(_args, extra) {
                const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 50 });
                const store = (status: 'completed' | 'failed', text: string) =>
                    extra.taskStore.storeTaskResult(task.taskId, status, {
                        content: [{ type: 'text', text }], isError: status === 'failed'
                    });
                setTimeout(() => {
                    run(extra, task.taskId)
                        .then(text => store('completed', text), error => store('failed', error.message))
                        .catch(error => console.error(String(error))); // it was cancelled
                }, 10); // once the task was told: it is the store's own object
                return { task };
            },
            getTask: async (_args, { taskId, taskStore }) => taskStore.getTask(taskId),
            getTaskResult: async (_args, { taskId, taskStore }) => (await taskStore.getTaskResult(taskId)) as never
        });
    const ask = async (extra: CreateTaskRequestHandlerExtra, taskId: string) => {
        const answer = await extra.sendRequest(
            {
                method: 'elicitation/create',
                params: {
                    mode: 'form',
                    message: 'What shall be echoed?',
                    requestedSchema: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] }
                }
            },
            ElicitResultSchema,
            { relatedTask: { taskId } }
        );
        await extra.taskStore.updateTaskStatus(taskId, 'working');
        return `Echo: ${answer.content?.input}`;
    };
    tool('k_ask', 'optional', ask);
    tool('k_required', 'required', ask);
    tool('k_fail', 'optional', async () => {
        throw new Error('the job broke');
    });
    tool('k_slow', 'optional', () => new Promise(() => {}));
    return server;
}

const sessions = new Map<string, StreamableHTTPServerTransport>();
function serveHTTP() {
    const http = createServer(async (req, res) => {
        const body = req.method === 'POST' ? await json(req) : undefined;
        let transport = sessions.get(String(req.headers['mcp-session-id']));
        if (transport === undefined && isInitializeRequest(body)) {
            const opened = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: id => void sessions.set(id, opened)
            });
            await newServer().connect(opened);
            transport = opened;
        }
        if (transport === undefined) {
            res.writeHead(404).end();
            return;
        }
        await transport.handleRequest(req, res, body);
    });
    http.listen(0, '127.0.0.1', () => {
        console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
    });
}

if (process.argv[2] === 'stdio') await newServer().connect(new StdioServerTransport());
else serveHTTP();
