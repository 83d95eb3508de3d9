// The TypeScript SDK's server in the comparison of judge/bench: one tool, which asks for a name.
//
//   node greet.ts    prints its URL, and serves 2026-07-28 over HTTP
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

const greeting = z.object({ place: z.string() });
const login = z.object({ name: z.string() });

function newServer(): McpServer {
    const server = new McpServer({ name: 'bench', version: '1.0.0' });
    server.registerTool('greet', { inputSchema: greeting }, async ({ place }, ctx) => {
        const answer = acceptedContent(ctx.mcpReq.inputResponses, 'login', login);
        if (answer === undefined) {
            return inputRequired({ inputRequests: { login: inputRequired.elicit({ message: 'Who are you?', requestedSchema: login }) } });
        }
        return { content: [{ type: 'text', text: `Hello ${answer.name} in ${place}` }] };
    });
    return server;
}

const http = createServer(toNodeHandler(createMcpHandler(newServer, { legacy: 'reject' })));
http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`));
