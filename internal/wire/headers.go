package wire

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// The request metadata headers (basic/transports/streamable-http).
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	headerPrefix  = "Mcp-"
	paramPrefix   = headerPrefix + "Param-"
)

// Mismatch is the error for headers that contradict the body.
func Mismatch(format string, args ...any) *jsonrpc.Error {
	return Errorf(mcp.CodeHeaderMismatch, "Header mismatch: "+format, args...)
}

// CheckOnce verifies that each of the protocol's headers occurs once and in visible ASCII, in every revision: proxies
// act upon them, and of two values a proxy may read one and the server the other.
func CheckOnce(h http.Header) *jsonrpc.Error {
	for name, values := range h {
		if len(values) == 0 || !strings.HasPrefix(name, headerPrefix) {
			continue
		}
		if _, fault := Header(h, name); fault != nil {
			return fault
		}
	}
	return nil
}

// CheckRouting verifies that the Mcp-Method and Mcp-Name headers agree with a message
// (basic/transports/streamable-http, "Server Validation"). The method is empty for a response, and the name for a
// message that names nothing. The headers may be absent, unless the revision of a request requires them.
func CheckRouting(h http.Header, method, name string, required bool) *jsonrpc.Error {
	if required || len(h[HeaderMethod]) > 0 {
		if value, fault := Header(h, HeaderMethod); fault != nil || value != method {
			return cmp.Or(fault, differs(HeaderMethod))
		}
	}
	if required && MayAsk(method) || len(h[HeaderName]) > 0 {
		if value, fault := decodedHeader(h, HeaderName); fault != nil || value != name {
			return cmp.Or(fault, differs(HeaderName))
		}
	}
	return nil
}

func differs(name string) *jsonrpc.Error {
	return Mismatch("the %s header does not match the value in the body", name)
}

// Name returns the tool, prompt, resource, task or event type that a message names in its params, or "". The Mcp-Name
// header mirrors it.
func Name(method string, params []byte) string {
	member := ""
	switch {
	case MayAsk(method):
		member = TargetMember(method)
	case IsTask(method):
		member = "taskId"
	case IsEvent(method):
		member = "name"
	default:
		return ""
	}
	value := strictjson.Get(params, member)
	if value == nil && method == InputResponse {
		return RelatedTask(params)
	}
	name, _ := strictjson.String(value)
	return name
}

// Header returns the value of a header that must occur exactly once. The name is in canonical form.
func Header(h http.Header, name string) (string, *jsonrpc.Error) {
	values := h[name]
	if len(values) == 0 {
		return "", Mismatch("the %s header is missing", name)
	}
	if len(values) > 1 {
		return "", Mismatch("the %s header occurs %d times", name, len(values))
	}
	for i := range len(values[0]) {
		if c := values[0][i]; c != '\t' && (c < ' ' || c > '~') {
			return "", Mismatch("the %s header has a character outside visible ASCII; encode the value as =?base64?...?=", name)
		}
	}
	return values[0], nil
}

// decodedHeader is [Header] for a value that may be in Base64.
func decodedHeader(h http.Header, name string) (string, *jsonrpc.Error) {
	value, fault := Header(h, name)
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if ok {
		inner, ok = strings.CutSuffix(inner, "?=")
	}
	if fault != nil || !ok {
		return value, fault
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(inner)
	if err != nil {
		return "", Mismatch("the %s header is not valid Base64", name)
	}
	return string(decoded), nil
}

// EncodeHeader returns a value as a header carries it ("Value Encoding").
func EncodeHeader(v string) string {
	plain := v == strings.Trim(v, " \t") && !(strings.HasPrefix(v, "=?base64?") && strings.HasSuffix(v, "?="))
	for i := range len(v) {
		plain = plain && v[i] >= ' ' && v[i] <= '~'
	}
	if plain {
		return v
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
}

// HasParamHeaders reports whether a request has headers that mirror parameters of some tool.
func HasParamHeaders(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, paramPrefix) {
			return true
		}
	}
	return false
}

// ParamHeader mirrors one tool parameter into an HTTP header (x-mcp-header).
type ParamHeader struct {
	path   []string
	header string // canonical, with its prefix
}

// ParamHeaders reads the x-mcp-header annotations of a tool's input schema. It refuses one that breaks a rule
// (basic/transports/streamable-http, "Schema Extension").
func ParamHeaders(schema any) ([]ParamHeader, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if strictjson.TypeOf(data) != strictjson.TypeObject { // true, false and null have no annotations
		return nil, nil
	}
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	if _, annotated := root[annotation]; annotated {
		return nil, errors.New("x-mcp-header stands at the root, where no property is")
	}
	a := annotations{seen: make(map[string]bool)}
	if err := a.collect(nil, root); err != nil {
		return nil, err
	}
	return a.headers, nil
}

const annotation = "x-mcp-header"

// The keywords beside "properties" that have a schema, or several in an array or object.
var (
	below = []string{"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "additionalProperties",
		"unevaluatedProperties", "propertyNames", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "contentSchema"}
	belowNames = []string{"$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"}
)

type annotations struct {
	headers []ParamHeader
	seen    map[string]bool
}

// collect reads the annotations of a schema, which its parameter's path leads to.
func (a *annotations) collect(path []string, schema map[string]any) error {
	if name, annotated := schema[annotation]; annotated {
		if err := a.add(path, name, schema["type"]); err != nil {
			return fmt.Errorf("the property %.100q: %w", strings.Join(path, "."), err)
		}
	}
	for _, keyword := range slices.Concat(below, belowNames) {
		if annotatedBelow(schema[keyword], slices.Contains(belowNames, keyword)) {
			return fmt.Errorf("x-mcp-header stands below %q, where no path of properties leads", keyword)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		if err := a.collect(append(path[:len(path):len(path)], name), property); err != nil {
			return err
		}
	}
	return nil
}

func (a *annotations) add(path []string, value, kind any) error {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	name, _ := value.(string)
	header := textproto.CanonicalMIMEHeaderKey(paramPrefix + name)
	switch {
	case name == "":
		return errors.New("x-mcp-header is not a name")
	case strings.Trim(name, token) != "":
		return fmt.Errorf("x-mcp-header %.100q is not a token of RFC 9110", name)
	case a.seen[header]:
		return fmt.Errorf("x-mcp-header %.100q occurs twice", name)
	case !primitive(kind):
		return errors.New("x-mcp-header needs the type string, integer or boolean")
	}
	a.seen[header] = true
	a.headers = append(a.headers, ParamHeader{path, header})
	return nil
}

// primitive reports whether a header can carry every value of a type, beside null.
func primitive(kind any) bool {
	kinds, several := kind.([]any)
	if !several {
		return kind == "string" || kind == "integer" || kind == "boolean"
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k any) bool { return k == "null" })
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k any) bool { return !primitive(k) })
}

// annotatedBelow reports whether a value of a keyword has an annotation in one of its schemas.
func annotatedBelow(value any, named bool) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(schema any) bool { return annotatedBelow(schema, false) })
	case map[string]any:
		if _, annotated := v[annotation]; annotated && !named {
			return true
		}
		for name, inner := range v {
			names := name == "properties" || slices.Contains(belowNames, name)
			if (named || names || slices.Contains(below, name)) && annotatedBelow(inner, names && !named) {
				return true
			}
		}
	}
	return false
}

// In reports whether the headers of a request have this one.
func (p ParamHeader) In(h http.Header) bool { return len(h[p.header]) > 0 }

// Set sets the header for a call's arguments (basic/transports/streamable-http, "Client Behavior"). It leaves out an
// absent parameter, and one of a type that no header can carry.
func (p ParamHeader) Set(h http.Header, arguments []byte) {
	value := arguments
	for _, name := range p.path {
		value = strictjson.Get(value, name)
	}
	switch strictjson.TypeOf(value) {
	case strictjson.TypeString:
		s, _ := strictjson.String(value)
		h[p.header] = []string{EncodeHeader(s)}
	case strictjson.TypeBool:
		h[p.header] = []string{string(value)}
	case strictjson.TypeNumber:
		const safe = 1<<53 - 1
		if n, err := strconv.ParseFloat(string(value), 64); err == nil && n == math.Trunc(n) && math.Abs(n) <= safe {
			h[p.header] = []string{strconv.FormatInt(int64(n), 10)}
		}
	}
}

// Check verifies the header against the call's arguments (basic/transports/streamable-http, "Server Behavior for
// Custom Headers").
func (p ParamHeader) Check(h http.Header, arguments []byte) *jsonrpc.Error {
	value := arguments
	for _, name := range p.path {
		value = strictjson.Get(value, name)
	}
	if value == nil || strictjson.TypeOf(value) == strictjson.TypeNull {
		if len(h[p.header]) > 0 {
			return Mismatch("the %s header is set, but its parameter is absent", p.header)
		}
		return nil
	}
	decoded, err := decodedHeader(h, p.header)
	if err != nil {
		return err
	}
	same := false
	switch strictjson.TypeOf(value) {
	case strictjson.TypeString:
		s, _ := strictjson.String(value)
		same = s == decoded
	case strictjson.TypeBool:
		same = string(value) == decoded
	case strictjson.TypeNumber:
		same = sameInteger(decoded, string(value))
	}
	if !same {
		return differs(p.header)
	}
	return nil
}

// sameInteger compares numerically: 42.0 and 42 are equal. Safe integers have at most 16 digits, so it refuses long
// spellings before any arithmetic. It refuses other bases, signs and exponents, which other readers of the header may
// not understand.
func sameInteger(a, b string) bool {
	const longest = 40
	if len(a) > longest || len(b) > longest || strings.Trim(a+b, "-.0123456789") != "" {
		return false
	}
	x, isNumber := new(big.Rat).SetString(a)
	y, isToo := new(big.Rat).SetString(b)
	return isNumber && isToo && x.IsInt() && x.Cmp(y) == 0
}
