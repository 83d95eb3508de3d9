package calls

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// ownMeta begins the names in _meta that are this library's.
const ownMeta = "io.github.askback-mcp/"

// DropOwn drops from a server's _meta what only the bridge says to hosts.
func DropOwn(meta mcp.Meta) {
	maps.DeleteFunc(meta, func(name string, _ any) bool { return IsOwnMeta(name) })
}

// IsOwnMeta reports whether only the bridge says this to hosts.
func IsOwnMeta(name string) bool {
	return strings.HasPrefix(name, ownMeta) || name == wire.MetaRelatedTask
}

// metaPassedOn is the _meta of a result without the server's name, which is all that most have in it.
func metaPassedOn(meta []byte) (all mcp.Meta, err error) {
	for name, value := range strictjson.Members(meta) {
		if string(name) == mcp.MetaKeyServerInfo {
			continue
		}
		if all == nil {
			all = make(mcp.Meta)
		}
		var decoded any
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.UseNumber()
		if err := decoder.Decode(&decoded); err != nil {
			return nil, err
		}
		all[string(name)] = decoded
	}
	return all, nil
}
