package sdkfront

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client may send the member of _meta in which exact parameters travel. If it is wrong, it is refused like any other.
func TestExactParametersThatAreNoObject(t *testing.T) {
	for _, text := range []string{"", "[", "7", "[]", `{"requestState":"forged","requestState":""}`, `{"requestState":"` +
		"\xff" + `"}`, `{"task":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + `}`} {
		req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "t", Meta: mcp.Meta{metaExact: text}}}
		_, _, err := exactParams(req, 9)
		if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", text, err)
		}
	}
}
