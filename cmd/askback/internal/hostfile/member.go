package hostfile

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// member is a member of the file.
type member struct {
	*reader
	path  string
	value []byte
}

// child is a member of m, which is an object.
func (m member) child(name, value []byte) member {
	return member{m.reader, m.path + "." + printable(string(name)), value}
}

// text is a string, with its variables expanded.
func (m member) text() (string, error) {
	text, ok := strictjson.String(m.value)
	if !ok {
		return "", fmt.Errorf("%s: want a string", m.path)
	}
	if strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("%s: it has the character NUL", m.path)
	}
	expanded, err := expand(text, m.lookup)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.path, err)
	}
	return expanded, nil
}

// truth is true or false.
func (m member) truth() (bool, error) {
	if strictjson.TypeOf(m.value) != strictjson.TypeBool {
		return false, fmt.Errorf("%s: want true or false", m.path)
	}
	return string(m.value) == "true", nil
}

// list is an array of strings.
func (m member) list() ([]string, error) {
	if strictjson.TypeOf(m.value) != strictjson.TypeArray {
		return nil, fmt.Errorf("%s: want an array of strings", m.path)
	}
	list := []string{}
	for value := range strictjson.Elements(m.value) {
		text, err := member{m.reader, fmt.Sprintf("%s[%d]", m.path, len(list)), value}.text()
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

// pairs is an object of strings. A number or a boolean counts as its text, as in many a host's file.
func (m member) pairs(add func(m member, name, value string) error) error {
	if strictjson.TypeOf(m.value) != strictjson.TypeObject {
		return fmt.Errorf("%s: want an object of strings", m.path)
	}
	for name, value := range strictjson.Members(m.value) {
		at := m.child(name, value)
		if kind := strictjson.TypeOf(value); kind == strictjson.TypeNumber || kind == strictjson.TypeBool {
			at.value = []byte(strconv.Quote(string(value)))
		}
		text, err := at.text()
		if err == nil {
			err = add(at, string(name), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// secretName is the name of a variable whose value is most likely secret.
var secretName = regexp.MustCompile(`(?i)token|secret|passw|key|credential|auth`)

// env is the environment of a program.
func (m member) env() ([]string, error) {
	env := []string{}
	err := m.pairs(func(m member, name, value string) error {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%s: a variable's name is empty or has a \"=\"", m.path)
		}
		if secretName.MatchString(name) && value != "" && !strings.Contains(string(m.value), "${") {
			m.secret("")
		}
		env = append(env, name+"="+value)
		return nil
	})
	return env, err
}

// headers adds the headers of a server at a URL.
func (m member) headers(to http.Header) error {
	return m.pairs(func(m member, name, value string) error {
		if !strings.Contains(string(m.value), "${") {
			m.secret("")
		}
		return m.header(to, name, value)
	})
}

// headersFile adds the headers of another file, a line each. A file that every user of the machine can read or write is
// refused, as one of keys is.
func (m member) headersFile(to http.Header) error {
	path, err := m.text()
	if err != nil {
		return err
	}
	data, info, err := readFile(path)
	if err != nil {
		return fmt.Errorf("%s: the file cannot be read: %w", m.path, err)
	}
	if len(data) > maxFile {
		return fmt.Errorf("%s: the file is larger than %d bytes", m.path, maxFile)
	}
	if err := checkSecret(path, info); err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	return m.headerLines(to, string(data))
}

func (m member) headerLines(to http.Header, text string) error {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		name, value, _ := strings.Cut(line, ":")
		if err := m.header(to, name, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

// What a header may consist of (RFC 9110, section 5.6.2 and 5.5).
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

func (m member) header(to http.Header, name, value string) error {
	if !headerName.MatchString(name) || !headerValue.MatchString(value) {
		return fmt.Errorf("%s: it is not a header, such as \"Authorization\": \"Bearer …\"", m.path)
	}
	switch canonical := http.CanonicalHeaderKey(name); canonical {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection":
		return fmt.Errorf("%s: %s is the connection's own", m.path, canonical)
	}
	to.Add(name, value)
	return nil
}

// printable is a name for an error or a log: bounded, and without the characters that change a terminal.
func printable(name string) string {
	quoted := strconv.QuoteToGraphic(name[:min(len(name), 2*maxName)])
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
