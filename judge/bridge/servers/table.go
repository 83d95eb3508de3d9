package main

import "context"

// placeholder is replaced by the directory that a server works in.
const placeholder = "$DIR"

// server is a package of npm with a server that needs no account.
type server struct {
	name, version string
	args, env     []string
	calls         []call
	uses          func(ctx context.Context, t *transcript) // what one call leaves behind for the next
}

// call is a call of a tool that does no harm.
type call struct{ tool, arguments string }

var servers = []*server{
	{name: "@modelcontextprotocol/server-everything", version: "2026.8.31", uses: everything, calls: []call{
		{"echo", `{"message":"octocat"}`},
		{"get-sum", `{"a":2,"b":40.50}`},
		{"get-tiny-image", ``},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`},
		{"get-structured-content", `{"location":"New York"}`},
		{"get-resource-links", `{"count":3}`},
		{"get-resource-reference", `{"resourceType":"Blob","resourceId":2}`},
	}},
	{name: "@modelcontextprotocol/server-filesystem", version: "2026.8.31", args: []string{placeholder}, calls: []call{
		{"list_allowed_directories", ``},
		{"read_text_file", `{"path":"$DIR/a.txt","head":1}`},
		{"read_media_file", `{"path":"$DIR/a.txt"}`},
		{"read_multiple_files", `{"paths":["$DIR/a.txt","$DIR/none"]}`},
		{"read_text_file", `{"path":"/etc/hostname"}`},
		{"write_file", `{"path":"$DIR/c.txt","content":"fish\n"}`},
		{"edit_file", `{"path":"$DIR/c.txt","edits":[{"oldText":"fish","newText":"crab"}]}`},
		{"list_directory_with_sizes", `{"path":"$DIR"}`},
		{"directory_tree", `{"path":"$DIR"}`},
		{"search_files", `{"path":"$DIR","pattern":"**/*.md"}`},
		{"move_file", `{"source":"$DIR/c.txt","destination":"$DIR/d.txt"}`},
		{"get_file_info", `{"path":"$DIR/a.txt"}`},
	}},
	{name: "@modelcontextprotocol/server-memory", version: "2026.8.31", env: []string{"MEMORY_FILE_PATH=$DIR/m.jsonl"},
		calls: memories},
	{name: "@modelcontextprotocol/server-sequential-thinking", version: "2026.8.31", calls: []call{
		{"sequentialthinking", `{"thought":"octocats swim","nextThoughtNeeded":true,"thoughtNumber":1,"totalThoughts":2}`},
		{"sequentialthinking", `{"thought":"so they are wet","nextThoughtNeeded":false,"thoughtNumber":2,"totalThoughts":2}`},
	}},
	{name: "@wonderwhy-er/desktop-commander", version: "0.2.52", uses: terminals, calls: []call{
		{"read_file", `{"path":"$DIR/a.txt"}`},
		{"read_multiple_files", `{"paths":["$DIR/a.txt","$DIR/none"]}`},
		{"write_file", `{"path":"$DIR/c.txt","content":"fish\n"}`},
		{"edit_block", `{"file_path":"$DIR/c.txt","old_string":"fish","new_string":"crab"}`},
		{"list_directory", `{"path":"$DIR"}`},
		{"get_file_info", `{"path":"$DIR/a.txt"}`},
		{"list_sessions", ``},
		{"list_searches", ``},
	}},
	{name: "mcp-fetch-server", version: "1.1.2", calls: []call{
		{"fetch_txt", `{"url":"http://127.0.0.1:9/octocat"}`},
		{"fetch_json", `{"url":"file:///etc/hostname"}`},
	}},
	{name: "mcp-sequentialthinking-tools", version: "0.0.3", calls: []call{
		{"sequentialthinking_tools", `{"available_mcp_tools":["swim"],"thought":"octocats swim","next_thought_needed":false,
			"thought_number":1,"total_thoughts":1}`},
	}},
	{name: "time-mcp", version: "1.0.6", calls: []call{
		{"days_in_month", `{"date":"2026-11-26"}`},
		{"get_week_year", `{"date":"2026-11-26"}`},
		{"get_timestamp", `{"time":"2026-11-26 12:00:00"}`},
		{"convert_time", `{"sourceTimezone":"Europe/Berlin","targetTimezone":"Asia/Tokyo","time":"2026-11-26 12:00:00"}`},
		{"current_time", `{"timezone":"Europe/Berlin"}`},
	}},
	{name: "@coo-quack/calc-mcp", version: "2.1.1", calls: []call{
		{"math", `{"expression":"2^10 + 1"}`},
		{"math", `{"action":"statistics","values":[1,2.50,1e3]}`},
		{"hash", `{"input":"octocat","algorithm":"sha256"}`},
		{"diff", `{"text1":"octocat","text2":"hubot"}`},
		{"base", `{"value":"ff","from":16,"to":2}`},
		{"luhn", `{"number":"4111111111111111"}`},
		{"semver", `{"action":"compare","version":"1.2.3","version2":"1.10.0"}`},
		{"jwt_decode", `{"token":"not a token"}`},
		{"random", `{"type":"uuid"}`},
	}},
	{name: "mcp-shrimp-task-manager", version: "1.0.21", env: []string{"DATA_DIR=$DIR/shrimp"}, calls: []call{
		{"list_tasks", `{"status":"all"}`},
		{"plan_task", `{"description":"Feed all of the octocats"}`},
	}},
	{name: "@itseasy21/mcp-knowledge-graph", version: "1.0.7", args: []string{"--memory-path", "$DIR/m.jsonl"},
		calls: memories},
	{name: "@agent-infra/mcp-server-filesystem", version: "1.2.29", args: []string{"--allowed-directories", placeholder},
		calls: []call{
			{"list_allowed_directories", ``},
			{"read_file", `{"path":"$DIR/a.txt"}`},
			{"read_file", `{"path":"/etc/hostname"}`},
			{"write_file", `{"path":"$DIR/c.txt","content":"fish\n"}`},
			{"directory_tree", `{"path":"$DIR"}`},
		}},
	{name: "@agent-infra/mcp-server-commands", version: "1.2.18", calls: []call{
		{"run_command", `{"command":"echo octocat; exit 3"}`},
		{"run_script", `{"script":"echo octocat >&2","interpreter":"sh"}`}, // without one the server may crash
	}},
	{name: "@sylphx/pdf-reader-mcp", version: "2.4.0", calls: []call{
		{"read_pdf", `{"sources":[{"path":"$DIR/a.txt"}],"include_full_text":true}`},
	}},
	{name: "@kazuph/mcp-taskmanager", version: "1.1.1", env: []string{"TASK_MANAGER_FILE_PATH=$DIR/tasks.json"},
		calls: []call{
			{"request_planning", `{"originalRequest":"Feed them","tasks":[{"title":"Fish","description":"Buy fish"}]}`},
			{"get_next_task", `{"requestId":"req-1"}`},
			{"mark_task_done", `{"requestId":"req-1","taskId":"task-1","completedDetails":"Fed"}`},
			{"list_requests", ``},
			{"open_task_details", `{"taskId":"none"}`},
		}},
	{name: "@aashari/boilerplate-mcp-server", version: "3.2.0", calls: []call{
		{"ip_get_details", `{"ipAddress":"not an address"}`},
	}},
	{name: "@primeng/mcp", version: "22.1.1", calls: []call{
		{"list", `{"kind":"components","limit":5}`},
		{"search", `{"query":"button"}`},
		{"get_component", `{"component":"button"}`},
		{"version", ``},
	}},
	{name: "fast-filesystem-mcp", version: "3.5.2", args: []string{"--allow", placeholder}, calls: []call{
		{"fast_list_allowed_directories", ``},
		{"fast_read_file", `{"path":"$DIR/a.txt"}`},
		{"fast_list_directory", `{"path":"$DIR"}`},
		{"fast_search_files", `{"path":"$DIR","pattern":"a"}`},
		{"fast_extract_lines", `{"path":"$DIR/a.txt","start_line":1,"end_line":1}`},
		{"fast_read_file", `{"path":"$DIR/none"}`},
	}},
	{name: "@allpepper/memory-bank-mcp", version: "0.2.2", env: []string{"MEMORY_BANK_ROOT=$DIR/projects"}, calls: []call{
		{"list_projects", ``},
		{"memory_bank_read", `{"projectName":"octocat","fileName":"n.md"}`},
		{"memory_bank_write", `{"projectName":"octocat","fileName":"o.md","content":"crab"}`},
		{"list_project_files", `{"projectName":"octocat"}`},
	}},
	{name: "@accesslint/mcp", version: "0.11.1", calls: []call{
		{"list_rules", `{"category":"aria"}`},
		{"explain_rule", `{"id":"text-alternatives/img-alt"}`},
		{"explain_rule", `{"id":"none"}`},
	}},
	{name: "mcp-mermaid", version: "0.4.1", calls: []call{
		{"generate_mermaid_diagram", `{"mermaid":"graph TD; A-->B","outputType":"mermaid"}`},
	}},
	{name: "@playwright/mcp", version: "0.0.83", calls: []call{
		{"browser_tabs", `{"action":"octocat"}`},
	}},
	{name: "chrome-devtools-mcp", version: "1.11.0", args: []string{"--executablePath", "$DIR/none"}, calls: []call{
		{"list_pages", ``},
	}},
	{name: "@notionhq/notion-mcp-server", version: "2.5.2"},
	{name: "@antv/mcp-server-chart", version: "0.9.10", calls: []call{
		{"generate_pie_chart", `{"data":[]}`},
	}},
	{name: "@mastra/mcp-docs-server", version: "1.2.27", calls: []call{
		{"listMastraPackages", `{"projectPath":"$DIR"}`},
	}},
	{name: "@negokaz/excel-mcp-server", version: "0.12.0", calls: []call{
		{"excel_describe_sheets", `{"fileAbsolutePath":"$DIR/a.txt"}`},
	}},
	{name: "@jzone-mcp/antd-components-mcp", version: "2.0.22", calls: []call{
		{"list-components", ``},
		{"get-component-docs", `{"componentName":"Button"}`},
		{"get-component-docs", `{"componentName":"Octocat"}`},
	}},
	{name: "obsidian-mcp", version: "2.0.1", args: []string{"serve", "--vault", "octocats=$DIR/vault"}},
	{name: "mcp-graphql-schema", version: "0.0.2", args: []string{"$DIR/schema.graphqls"}},
}

// memories are calls of a server that remembers what is related.
var memories = []call{
	{"create_entities", `{"entities":[{"name":"Octocat","entityType":"cat","observations":["likes fish"]}]}`},
	{"create_entities", `{"entities":[{"name":"Hubot","entityType":"robot","observations":[]}]}`},
	{"create_relations", `{"relations":[{"from":"Octocat","to":"Hubot","relationType":"knows"}]}`},
	{"add_observations", `{"observations":[{"entityName":"None","contents":["is not there"]}]}`},
	{"search_nodes", `{"query":"fish"}`},
	{"open_nodes", `{"names":["Hubot"]}`},
	{"delete_observations", `{"deletions":[{"entityName":"Octocat","observations":["likes fish"]}]}`},
	{"read_graph", ``},
}
