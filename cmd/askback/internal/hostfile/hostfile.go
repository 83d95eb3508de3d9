// Package hostfile reads the file in which a host keeps its MCP servers, such as claude_desktop_config.json, .mcp.json
// or VS Code's mcp.json:
//
//	{"mcpServers": {
//	  "github": {"command": "npx", "args": ["-y", "a-server"], "env": {"TOKEN": "${GITHUB_TOKEN}"}},
//	  "shop": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
//	}}
//
// Errors and warnings name the member, as in mcpServers.github.args[1], and have nothing of a value, which may be
// secret.
package hostfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// File is the content of a host's file. The servers have its order, without the ones that are switched off.
type File struct {
	Servers  []Server
	Warnings []string // of what is not used, and of secrets that others can read
}

// Server is a server of the file: a program, or a URL.
type Server struct {
	Name    string
	Program []string // with its arguments; nil for a URL
	Env     []string // NAME=value, what the file adds to the environment of the program
	Dir     string   // of the program, or empty
	URL     string
	Header  http.Header

	Prefix     string            // stands before the names of tools, and may be empty
	Allow      []string          // patterns of the tools that are offered, or nil for all
	Deny       []string          // patterns of tools that are not
	Rename     map[string]string // from names of tools to new ones
	NameLength int               // bytes of the names that hosts see, or zero

	SessionPerCall bool // each call of a tool has a session of its own

	// Identity tells this server from any other: its name, and its URL or its command line as the file has it, in which
	// ${…} is not expanded. It may hold a secret that somebody has written into a command line.
	Identity string
}

// The bounds of a file.
const (
	maxFile    = 1 << 20 // bytes
	maxDepth   = 32
	maxServers = 100
	maxName    = 64 // bytes of a server's name
)

// Read reads a host's file. Variables are looked up by lookup, which is os.LookupEnv outside of tests. A file that
// others can write is refused: it says which programs are started.
func Read(path string, lookup func(string) (string, bool)) (*File, error) {
	data, info, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	file, secrets, err := parse(data, lookup)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(secrets) > 0 && othersRead(info) {
		file.Warnings = append(file.Warnings, fmt.Sprintf("others on this machine can read the secrets in %s (%s): "+
			"chmod 600 %s, or name a variable in their place, as in ${TOKEN}", path, strings.Join(secrets, ", "), path))
	}
	return file, nil
}

// readFile reads a file, up to a byte more than is allowed. Nothing else is opened: a pipe would wait for its writer.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	return data, info, err
}

// Parse reads what a host's file contains.
func Parse(data []byte, lookup func(string) (string, bool)) (*File, error) {
	file, _, err := parse(data, lookup)
	return file, err
}

// lists are the members that hold the servers: of most hosts, of VS Code, and of Zed.
var lists = []string{"mcpServers", "servers", "context_servers"}

// parse also returns the members that hold secrets in clear.
func parse(data []byte, lookup func(string) (string, bool)) (*File, []string, error) {
	if len(data) > maxFile {
		return nil, nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	data = standardize(data)
	if err := strictjson.Check(data, maxDepth); err != nil {
		return nil, nil, located(data, err)
	}
	if strictjson.TypeOf(data) != strictjson.TypeObject {
		return nil, nil, errors.New(`it is not an object with "mcpServers"`)
	}
	r := &reader{lookup: lookup, file: new(File), prefixes: make(map[string]string)}
	found := ""
	for _, list := range lists {
		servers := strictjson.Get(data, list)
		switch {
		case servers == nil:
			continue
		case found != "":
			return nil, nil, fmt.Errorf("it has both %q and %q: keep one", found, list)
		}
		found = list
		if err := r.servers(list, servers); err != nil {
			return nil, nil, err
		}
	}
	if found == "" {
		return nil, nil, errors.New(`it has no "mcpServers", no "servers" (as VS Code) and no "context_servers" (as Zed)`)
	}
	if len(r.file.Servers) == 0 {
		return nil, nil, fmt.Errorf("%s has no server, or none that is switched on", found)
	}
	return r.file, r.secrets, nil
}

// located adds the line to an error of the syntax.
func located(data []byte, err error) error {
	if at, ok := errors.AsType[*strictjson.Error](err); ok {
		return fmt.Errorf("line %d: %w", 1+strings.Count(string(data[:min(at.Offset, len(data))]), "\n"), err)
	}
	return err
}

// reader reads the servers of a file.
type reader struct {
	lookup   func(string) (string, bool)
	file     *File
	secrets  []string
	prefixes map[string]string // from prefixes of tools to names of servers
}

func (r *reader) servers(list string, servers []byte) error {
	if strictjson.TypeOf(servers) != strictjson.TypeObject {
		return fmt.Errorf("%s: want an object of servers by name", list)
	}
	n := 0
	for name, value := range strictjson.Members(servers) {
		m := member{r, list, servers}.child(name, value)
		if n++; n > maxServers {
			return fmt.Errorf("%s has more than %d servers", list, maxServers)
		}
		if err := r.checkName(m, string(name)); err != nil {
			return err
		}
		s, err := m.server(string(name))
		if err != nil {
			return err
		}
		if s != nil {
			r.file.Servers = append(r.file.Servers, *s)
		}
	}
	return nil
}

// checkName refuses a name that cannot be told from another one before the name of a tool.
func (r *reader) checkName(m member, name string) error {
	prefix := Prefix(name)
	chosen := strictjson.Get(m.value, "toolPrefix")
	if strictjson.TypeOf(m.value) != strictjson.TypeObject || strictjson.TypeOf(chosen) == strictjson.TypeNull {
		chosen = nil
	}
	switch other, taken := r.prefixes[prefix]; {
	case len(name) > maxName:
		return fmt.Errorf("%.40q…: a server's name has at most %d bytes", name, maxName)
	case chosen != nil && prefix != "askback":
		return nil
	case strings.Trim(prefix, "-") == "":
		return fmt.Errorf("%s: a server's name needs a letter or a digit of ASCII: its tools have it before their names",
			m.path)
	case prefix == "askback":
		return fmt.Errorf("%s: the name is the bridge's own, as in askback_result; rename the server, or remove the entry "+
			"if it is the bridge itself", m.path)
	case taken:
		return fmt.Errorf("%s: tools of this server and of %q would both begin with %s_: rename one of them, or give it a "+
			"\"toolPrefix\"", m.path, other,
			prefix)
	}
	r.prefixes[prefix] = name
	return nil
}

// Prefix stands before the names of a server's tools and prompts, without the underscore that follows it. It
// has none itself, so that two servers never share a name: the first underscore ends it.
func Prefix(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, name)
}

// off returns whether a server is switched off.
func (m member) off() (bool, error) {
	for name, off := range map[string]bool{"disabled": true, "enabled": false} {
		value := strictjson.Get(m.value, name)
		if value == nil || strictjson.TypeOf(value) == strictjson.TypeNull {
			continue
		}
		is, err := m.child([]byte(name), value).truth()
		if is == off || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// server reads a server. It is nil if it is switched off.
func (m member) server(name string) (*Server, error) {
	if strictjson.TypeOf(m.value) != strictjson.TypeObject {
		return nil, fmt.Errorf("%s: want an object with \"command\" or \"url\"", m.path)
	}
	if off, err := m.off(); off || err != nil {
		return nil, err
	}
	s := &Server{Name: name, Prefix: Prefix(name), Header: make(http.Header)}
	var kind, command, address string
	var written []string // the command line
	var err error
	for key, value := range strictjson.Members(m.value) {
		at := m.child(key, value)
		if strictjson.TypeOf(value) == strictjson.TypeNull {
			continue
		}
		switch string(key) {
		case "command":
			command, err = at.text()
			written = append([]string{string(value)}, written...)
		case "args":
			s.Program, err = at.list()
			written = append(written, string(strictjson.AppendCompact(nil, value)))
		case "env":
			s.Env, err = at.env()
		case "cwd":
			s.Dir, err = at.text()
		case "url", "serverUrl", "httpUrl":
			if address != "" {
				return nil, fmt.Errorf("%s: the server has two URLs", at.path)
			}
			address, err = at.text()
		case "headers":
			err = at.headers(s.Header)
		case "headersFile":
			err = at.headersFile(s.Header)
		case "sessionPerCall":
			s.SessionPerCall, err = at.truth()
		case "tools", "includeTools", "allowedTools", "enabledTools", "excludeTools", "disabledTools", "renameTools",
			"toolPrefix", "toolNameLength":
			err = at.tools(s, string(key))
		case "type", "transport":
			kind, err = at.text()
		case "envFile":
			err = fmt.Errorf("%s is not read here: put the variables into \"env\"", at.path)
		case "disabled", "enabled":
		default:
			m.file.Warnings = append(m.file.Warnings, fmt.Sprintf("%s is not used by the bridge", at.path))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := m.checkKind(kind, command, address, s); err != nil {
		return nil, err
	}
	s.Identity = name + "\n" + strings.Join(written, " ") + "\n" + s.Dir
	if address != "" {
		s.Program, s.URL = nil, address
		s.Identity, err = m.identity(name, address)
		return s, err
	}
	s.Program = append([]string{command}, s.Program...)
	return s, nil
}

// tools reads a member that says which tools are offered, and under which names. Hosts have several names for the first
// two.
func (m member) tools(s *Server, key string) (err error) {
	switch key {
	case "tools", "includeTools", "allowedTools", "enabledTools":
		if key == "tools" && strictjson.TypeOf(m.value) != strictjson.TypeArray { // each host has its own
			m.file.Warnings = append(m.file.Warnings, fmt.Sprintf("%s is not used by the bridge", m.path))
			return nil
		}
		if s.Allow != nil {
			return fmt.Errorf("%s: the server has two lists of its tools: keep one", m.path)
		}
		s.Allow, err = m.list()
	case "excludeTools", "disabledTools":
		var more []string
		more, err = m.list()
		s.Deny = append(s.Deny, more...)
	case "renameTools":
		s.Rename = make(map[string]string)
		err = m.pairs(func(_ member, name, value string) error {
			s.Rename[name] = value
			return nil
		})
	case "toolPrefix":
		s.Prefix, err = m.text()
	case "toolNameLength":
		if s.NameLength, err = strconv.Atoi(string(m.value)); err != nil || s.NameLength == 0 {
			return fmt.Errorf("%s: want a number of letters, such as 64", m.path)
		}
	}
	return err
}

// checkKind compares the members that say how the server is spoken to.
func (m member) checkKind(kind, command, address string, s *Server) error {
	switch kind {
	case "", "stdio", "http", "streamable-http", "streamableHttp", "streamable_http":
	case "sse":
		return fmt.Errorf("%s.type: the bridge does not speak the transport of 2024-11-05, HTTP with SSE; most servers that "+
			"do also have a URL for type \"http\", often at /mcp", m.path)
	default:
		return fmt.Errorf("%s.type: want \"stdio\" or \"http\"", m.path)
	}
	program := kind == "stdio" || kind == "" && address == ""
	switch {
	case command != "" && address != "":
		return fmt.Errorf("%s has both a command and a URL: keep one", m.path)
	case command == "" && program:
		return fmt.Errorf("%s has no \"command\" and no \"url\"", m.path)
	case address == "" && !program:
		return fmt.Errorf("%s has no \"url\"", m.path)
	case program && len(s.Header) > 0:
		return fmt.Errorf("%s.headers: only a server at a URL has headers; a program has \"env\"", m.path)
	case !program && (s.Env != nil || s.Program != nil || s.Dir != ""):
		return fmt.Errorf("%s: only a program has \"args\", \"env\" and \"cwd\"; a server at a URL has \"headers\"", m.path)
	}
	return nil
}

// identity checks the URL of a server. It returns what tells the server from others: the URL without a password, so
// that a new password changes nothing.
func (m member) identity(name, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s.url: want a URL such as https://mcp.example.com/mcp", m.path)
	}
	if _, set := u.User.Password(); set {
		m.secret(".url")
	}
	u.User, u.Fragment = nil, ""
	return name + "\n" + u.String(), nil
}

// secret notes a member with a secret in clear.
func (m member) secret(below string) {
	if path := m.path + below; !slices.Contains(m.secrets, path) {
		m.secrets = append(m.secrets, path)
	}
}
