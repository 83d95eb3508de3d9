package exactjson

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
)

type nested struct {
	ID   int32    `json:"id"`
	Tags []string `json:"tags"`
	Sub  []nested `json:"sub,omitempty"`
}

type everything struct {
	Name     string            `json:"name"`
	Plain    bool              // by its own name
	Small    int8              `json:"small"`
	Large    int64             `json:"large"`
	Unsigned uint16            `json:"unsigned"`
	Float    float64           `json:"float"`
	Short    float32           `json:"short"`
	Raw      json.RawMessage   `json:"raw"`
	Raws     []json.RawMessage `json:"raws"`
	Nested   nested            `json:"nested"`
	Pointer  *nested           `json:"pointer"`
	List     []nested          `json:"list"`
	Bytes    []byte            `json:"bytes"`
	Fixed    [2]int            `json:"fixed"`
	Any      any               `json:"any"`
	Map      map[string]int    `json:"map"`
	Time     time.Time         `json:"time"`
	Number   json.Number       `json:"number"`
	Hidden   string            `json:"-"`
	own      string            // nobody can set it
}

// A member reaches the field of its exact name alone, whatever the document is.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a\u00e9\n","Plain":true,"small":-128,"large":9007199254740993,"unsigned":1,"float":1.5e3,"short":0.1}`,
		`{"raw":{"a": 1},"raws":[1, null,"x"],"nested":{"id":1,"tags":[],"sub":[{"id":2}]},"pointer":{"tags":["a"]}}`,
		`{"list":[{"id":1},{"sub":[]}],"bytes":"aGk=","fixed":[1,2,3],"any":[1,{"a":null}],"map":{"a":1}}`,
		`{"time":"2026-07-28T00:00:00Z","number":1e400,"-":"x","Hidden":"y","own":"z","NAME":"no"}`,
		`{"name":null,"Plain":null,"small":null,"raw":null,"raws":null,"nested":null,"pointer":null,"float":null}`,
		`{"small":128}`, `{"large":1e3}`, `{"float":1e400}`, `{"Plain":"true"}`, `{"list":{}}`, `[]`, ` {"name" : "a" } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data, 64) != nil {
			return
		}
		var into everything
		if err := Unmarshal(data, &into); err != nil {
			return
		}
		if into.Hidden != "" || into.own != "" {
			t.Fatalf("%s reaches fields that have no name in JSON", data)
		}
		name, _ := strictjson.String(strictjson.Get(data, "name"))
		if plain := string(strictjson.Get(data, "Plain")) == "true"; into.Name != name || into.Plain != plain {
			t.Fatalf("%s: the name is %q and Plain %v", data, into.Name, into.Plain)
		}
	})
}
