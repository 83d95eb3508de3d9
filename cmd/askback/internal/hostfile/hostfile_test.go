package hostfile

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// variables are the variables of the tests.
func variables(name string) (string, bool) {
	value, set := map[string]string{
		"TOKEN": "t0k3n", "EMPTY": "", "NESTED": "${TOKEN}", "LINES": "a\nb", "HOST": "mcp.example.com",
	}[name]
	return value, set
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		file     string
		want     []Server
		warnings []string
	}{
		"as most hosts have it": {
			file: `{"mcpServers":{"git hub":{"command":"npx","args":["-y","some-server","${TOKEN}"],
				"env":{"A":"${TOKEN}","N":1,"B":true},"cwd":"/srv"},
				"shop":{"type":"http","url":"https://u:p@${HOST}/mcp?a=1","headers":{"Authorization":"Bearer ${env:TOKEN}"}}}}`,
			want: []Server{
				{Name: "git hub", Prefix: "git-hub", Program: []string{"npx", "-y", "some-server", "t0k3n"},
					Env: []string{"A=t0k3n", "N=1", "B=true"}, Dir: "/srv", Header: http.Header{},
					Identity: "git hub\n\"npx\" [\"-y\",\"some-server\",\"${TOKEN}\"]\n/srv"},
				{Name: "shop", Prefix: "shop", URL: "https://u:p@mcp.example.com/mcp?a=1",
					Header:   http.Header{"Authorization": {"Bearer t0k3n"}},
					Identity: "shop\nhttps://mcp.example.com/mcp?a=1"},
			},
		},
		"as VS Code has it": {
			file: `{ // comments
				"inputs": [], /* and
				more */ "servers": {"a": {"type": "stdio", "command": "x//y", "dev": {}, },},
			}`,
			want: []Server{{Name: "a", Prefix: "a", Program: []string{"x//y"}, Header: http.Header{},
				Identity: "a\n\"x//y\"\n"}},
			warnings: []string{"servers.a.dev is not used by the bridge"},
		},
		"Zed, Windsurf and Gemini CLI": {
			file: `{"context_servers":{"z":{"source":"custom","enabled":true,"command":"z","args":null},
				"off":{"enabled":false,"command":"z"},"w":{"serverUrl":"http://w/mcp"},"g":{"httpUrl":"http://g/mcp"}}}`,
			want: []Server{{Name: "z", Prefix: "z", Program: []string{"z"}, Header: http.Header{}, Identity: "z\n\"z\"\n"},
				{Name: "w", Prefix: "w", URL: "http://w/mcp", Header: http.Header{}, Identity: "w\nhttp://w/mcp"},
				{Name: "g", Prefix: "g", URL: "http://g/mcp", Header: http.Header{}, Identity: "g\nhttp://g/mcp"}},
			warnings: []string{"context_servers.z.source is not used by the bridge"},
		},
		"tools": {
			file: `{"mcpServers":{"a":{"url":"http://a/","includeTools":["get_*"],"excludeTools":["x"],"disabledTools":["y"],
				"renameTools":{"get_a":"a"},"toolPrefix":"","toolNameLength":64},
				"b":{"url":"http://b/","tools":[],"toolPrefix":"${HOST}"},"c":{"url":"http://c/","tools":{"x":{}}},
				"c c":{"url":"http://c/","toolPrefix":null},"c-c":{"url":"http://c/","toolPrefix":"d."}}}`,
			want: []Server{
				{Name: "a", URL: "http://a/", Header: http.Header{}, Identity: "a\nhttp://a/", Allow: []string{"get_*"},
					Deny: []string{"x", "y"}, Rename: map[string]string{"get_a": "a"}, NameLength: 64},
				{Name: "b", URL: "http://b/", Header: http.Header{}, Identity: "b\nhttp://b/", Prefix: "mcp.example.com",
					Allow: []string{}},
				{Name: "c", URL: "http://c/", Header: http.Header{}, Identity: "c\nhttp://c/", Prefix: "c"},
				{Name: "c c", URL: "http://c/", Header: http.Header{}, Identity: "c c\nhttp://c/", Prefix: "c-c"},
				{Name: "c-c", URL: "http://c/", Header: http.Header{}, Identity: "c-c\nhttp://c/", Prefix: "d."},
			},
			warnings: []string{"mcpServers.c.tools is not used by the bridge"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := expect.Must(Parse([]byte(c.file), variables))(t)
			expect.Diff(t, "the value", &File{c.want, c.warnings}, got)
		})
	}
}

// Each mistake is named with its place, and nothing of a value is shown.
func TestMistakesAreNamed(t *testing.T) {
	for file, want := range map[string]string{
		"{\n\"mcpServers\": x}":             "line 2",
		`[]`:                                "not an object",
		`{}`:                                `has no "mcpServers"`,
		`{"mcpServers":{}}`:                 "has no server",
		`{"mcpServers":{},"mcpServers":{}}`: "duplicate",
		`{"mcpServers":{"a":{"url":"u"}},"servers":{}}`:     "want a URL",
		`{"mcpServers":{"a":{"command":"c"}},"servers":{}}`: "keep one",
		`{"mcpServers":[]}`:                                                        "mcpServers: want an object",
		`{"mcpServers":{"a":7}}`:                                                   "mcpServers.a: want an object",
		`{"mcpServers":{"a":{}}}`:                                                  `mcpServers.a has no "command"`,
		`{"mcpServers":{"a":{"command":7}}}`:                                       "mcpServers.a.command: want a string",
		`{"mcpServers":{"a":{"command":"c","args":"x"}}}`:                          "mcpServers.a.args: want an array",
		`{"mcpServers":{"a":{"command":"c","args":["x",7]}}}`:                      "mcpServers.a.args[1]: want a string",
		`{"mcpServers":{"a":{"command":"c","env":["x"]}}}`:                         "mcpServers.a.env: want an object",
		`{"mcpServers":{"a":{"command":"c","env":{"X":{}}}}}`:                      "mcpServers.a.env.X: want a string",
		`{"mcpServers":{"a":{"command":"c","env":{"X":"${UNSET}s3cret"}}}}`:        "env.X: the variable UNSET is not set",
		`{"mcpServers":{"a":{"command":"c","env":{"X":"${input:key}"}}}}`:          "cannot ask for ${input:key}",
		`{"mcpServers":{"a":{"command":"c","env":{"X=Y":"s3cret"}}}}`:              `has a "="`,
		`{"mcpServers":{"a":{"command":"c","cwd":"${workspaceFolder}"}}}`:          "no workspace",
		`{"mcpServers":{"a":{"command":"c","cwd":"${config:x}"}}}`:                 "does not know what ${config:x}",
		`{"mcpServers":{"a":{"command":"c","envFile":".env"}}}`:                    "a.envFile is not read",
		`{"mcpServers":{"a":{"command":"c","url":"http://h/"}}}`:                   "both a command and a URL",
		`{"mcpServers":{"a":{"url":"http://h/","httpUrl":"http://i/"}}}`:           "two URLs",
		`{"mcpServers":{"a":{"url":"http://h/","args":["x"]}}}`:                    "only a program has",
		`{"mcpServers":{"a":{"url":"file:///etc/passwd"}}}`:                        "a.url: want a URL",
		`{"mcpServers":{"a":{"url":"http://h/","type":"sse"}}}`:                    "transport of 2024-11-05",
		`{"mcpServers":{"a":{"url":"http://h/","type":"ws"}}}`:                     `want "stdio" or "http"`,
		`{"mcpServers":{"a":{"url":"http://h/","type":"stdio"}}}`:                  `has no "command"`,
		`{"mcpServers":{"a":{"command":"c","type":"http"}}}`:                       `has no "url"`,
		`{"mcpServers":{"a":{"command":"c","headers":{"A":"s3cret"}}}}`:            "only a server at a URL",
		`{"mcpServers":{"a":{"url":"http://h/","headers":{"A b":"s3cret"}}}}`:      "not a header",
		`{"mcpServers":{"a":{"url":"http://h/","headers":{"A":"${LINES}"}}}}`:      "a.headers.A: it is not a header",
		`{"mcpServers":{"a":{"url":"http://h/","headers":{"Host":"s3cret"}}}}`:     "the connection's own",
		`{"mcpServers":{"a":{"url":"http://h/","headersFile":"/does/not/be"}}}`:    "headersFile: the file cannot be read",
		`{"mcpServers":{"a":{"command":"c","disabled":"yes"}}}`:                    "a.disabled: want true or false",
		`{"mcpServers":{"a b":{"command":"c"},"a_b":{"command":"c"}}}`:             `both begin with a-b_`,
		`{"mcpServers":{"a":{"url":"http://h/","tools":[],"includeTools":[]}}}`:    "two lists of its tools",
		`{"mcpServers":{"a":{"url":"http://h/","excludeTools":"x"}}}`:              "a.excludeTools: want an array",
		`{"mcpServers":{"a":{"url":"http://h/","renameTools":["x"]}}}`:             "a.renameTools: want an object",
		`{"mcpServers":{"a":{"url":"http://h/","toolNameLength":"64"}}}`:           "a.toolNameLength: want a number",
		`{"mcpServers":{"a":{"url":"http://h/","toolPrefix":7}}}`:                  "a.toolPrefix: want a string",
		`{"mcpServers":{"askback":{"command":"c"}}}`:                               "the bridge's own",
		`{"mcpServers":{"\u202e":{"command":"c"}}}`:                                `mcpServers.\u202e: a server's name`,
		`{"mcpServers":{"` + strings.Repeat("n", 65) + `":{"command":"c"}}}`:       "at most 64 bytes",
		`{"mcpServers":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + "}": "nest",
		`{"mcpServers":{"a":{"command":"c\u0000"}}}`:                               "NUL",
		strings.Repeat(" ", 1<<20+1):                                               "larger than",
	} {
		_, err := Parse([]byte(file), variables)
		if err == nil {
			t.Errorf("%.80s: no error, want %q", file, want)
			continue
		}
		expect.Contains(t, fmt.Sprint(file, ": the error"), err.Error(), want)
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.80s: the error shows a secret: %v", file, err)
		}
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"a${TOKEN}b${env:TOKEN}": "at0k3nbt0k3n",
		"${UNSET:-d:e f}":        "d:e f",
		"${EMPTY:-d}":            "d",
		"${UNSET:-}":             "",
		"${EMPTY}":               "",
		"${NESTED}":              "${TOKEN}", // not expanded again
		"$TOKEN ${1} ${} ${a-b}": "$TOKEN ${1} ${} ${a-b}",
	} {
		if got, err := expand(text, variables); got != want || err != nil {
			t.Errorf("%q expands to %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestHeadersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	expect.Check(t, os.WriteFile(path, []byte("Authorization: Bearer x\nX-Team: a\n"), 0o600))
	file, err := Parse([]byte(`{"mcpServers":{"a":{"url":"http://h/","headersFile":"`+path+`"}}}`), variables)
	expect.Check(t, err)
	want := http.Header{"Authorization": {"Bearer x"}, "X-Team": {"a"}}
	expect.Diff(t, "the value", want, file.Servers[0].Header)
}

// Whatever a file of headers has, each header can be sent, and an error repeats nothing of a value.
func FuzzHeadersFile(f *testing.F) {
	f.Add("Authorization: Bearer x\nX-Team: a\n")
	f.Add("A:\r\nHost: h")
	f.Add(" : \x00")
	f.Fuzz(func(t *testing.T, text string) {
		headers := make(http.Header)
		err := member{path: "at"}.headerLines(headers, text)
		if err != nil && !printableText(err.Error()) {
			t.Errorf("the error has characters of control: %q", err)
		}
		for name, values := range headers {
			for _, value := range values {
				if !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") || name == "Host" {
					t.Errorf("the header %q: %q", name, value)
				}
			}
		}
	})
}

// Whatever a file has, reading it ends without a panic, and what it returns is whole.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"c","args":["${TOKEN:-x}"],"env":{"A":"b"}},"b":{"url":"http://h/"}}}`))
	f.Add([]byte(`{"servers":{/**/"a":{"type":"http","url":"http://h/","headers":{"A":"b"},},}} // end`))
	f.Add([]byte(`{"context_servers":{"a":{"enabled":false}}} /*`))
	f.Add([]byte(`{"mcpServers":{"a":{"url":"http://h/","tools":["x"],"renameTools":{"x":"y"},"toolNameLength":1e9}}}`))
	f.Add([]byte(`"\`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data, variables)
		if err != nil {
			if !printableText(err.Error()) {
				t.Errorf("the error has characters of control: %q", err)
			}
			return
		}
		prefixes := make(map[string]bool)
		for _, s := range file.Servers {
			prefix := Prefix(s.Name)
			if prefix == "askback" || s.Prefix == prefix && prefixes[prefix] || strings.Contains(prefix, "_") {
				t.Errorf("the prefix %q of %q", s.Prefix, s.Name)
			}
			if s.Prefix == prefix {
				prefixes[prefix] = true
			}
			if (s.URL == "") == (len(s.Program) == 0) || s.Identity == "" || !strings.HasPrefix(s.Identity, s.Name+"\n") {
				t.Errorf("the server is %+v", s)
			}
		}
	})
}

func printableText(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0x202e })
}
