package exactjson_test

import (
	"testing"

	"github.com/askback-mcp/askback/internal/exactjson"
)

func TestNamesAreExact(t *testing.T) {
	var into struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	if err := exactjson.Unmarshal([]byte(`{"NAME":"a","name":"b","Name":"c","Count":1}`), &into); err != nil ||
		into.Name != "b" || into.Count != 0 {
		t.Errorf("%+v, %v", into, err)
	}
	if err := exactjson.Unmarshal([]byte(`{"count":"1"}`), &into); err == nil {
		t.Error("a string is a number")
	}
}
