package strictjson

import (
	"fmt"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestTypeOf(t *testing.T) {
	for value, want := range map[string]Type{
		`{}`: TypeObject, `[]`: TypeArray, `""`: TypeString, `0`: TypeNumber, `-1`: TypeNumber,
		`true`: TypeBool, `false`: TypeBool, `null`: TypeNull,
		" \n{}": TypeObject, ``: TypeInvalid, ` `: TypeInvalid, `x`: TypeInvalid,
	} {
		if got := TypeOf([]byte(value)); got != want {
			t.Errorf("TypeOf(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestMembers(t *testing.T) {
	obj := []byte(` { "b" : { "x": [1, {"b":2}] } ,"\u0061\"" :"}\"{" , "":-1.5e3, "n":null } `)
	var got []string
	for name, value := range Members(obj) {
		got = append(got, string(name)+" = "+string(value))
	}
	want := []string{`b = { "x": [1, {"b":2}] }`, `a" = "}\"{"`, ` = -1.5e3`, `n = null`}
	expect.Diff(t, "members", want, got)
}

func TestMembersStops(t *testing.T) {
	var got []string
	for name := range Members([]byte(`{"a":1,"b":2,"c":3}`)) {
		if got = append(got, string(name)); len(got) == 2 {
			break
		}
	}
	expect.Diff(t, "members", []string{"a", "b"}, got)
}

func TestOnlyAnObjectHasMembers(t *testing.T) {
	for _, value := range []string{`[]`, `["a",1]`, `"a"`, `1`, `null`, ``, `{`, `{"a"`, `{"a":`, `{"a`, `{"a":"`, `{ }`,
		`{1:2}`} {
		for name, member := range Members([]byte(value)) {
			t.Errorf("%s has the member %q: %s", value, name, member)
		}
	}
}

func TestMembersCannotOverwriteEachOther(t *testing.T) {
	obj := []byte(`{"a":1,"b":2}`)
	for name, value := range Members(obj) {
		_, _ = append(name, "xxxx"...), append(value, "xxxx"...)
	}
	if got, want := string(obj), `{"a":1,"b":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestElements(t *testing.T) {
	array := []byte(` [ {"a": [1, 2]} ,"],", [ ] ,-1.5e3, null ] `)
	var got []string
	for value := range Elements(array) {
		got = append(got, string(value))
		_ = append(value, "xxxx"...) // cannot overwrite the document
	}
	want := []string{`{"a": [1, 2]}`, `"],"`, `[ ]`, `-1.5e3`, `null`}
	expect.Diff(t, "elements", want, got)
}

func TestElementsStops(t *testing.T) {
	var got []string
	for value := range Elements([]byte(`[1,2,3]`)) {
		if got = append(got, string(value)); len(got) == 2 {
			break
		}
	}
	expect.Diff(t, "elements", []string{"1", "2"}, got)
}

func TestOnlyAnArrayHasElements(t *testing.T) {
	for _, value := range []string{`{}`, `{"a":1}`, `"a"`, `1`, `null`, ``, `[`, `[ ]`, `[,1]`, `[}`, `["`} {
		for element := range Elements([]byte(value)) {
			t.Errorf("%s has the element %s", value, element)
		}
	}
}

func TestAppendCompact(t *testing.T) {
	for value, want := range map[string]string{
		" { \"a b\\\" \" :\r\n[ 1.50 ,\t\"x\\u0061 \" , { } , [ ] , null ] } ": `{"a b\" ":[1.50,"x\u0061 ",{},[],null]}`,
		` true `: `true`, ` "a" `: `"a"`, ``: ``,
	} {
		if got := string(AppendCompact([]byte("> "), []byte(value))); got != "> "+want {
			t.Errorf("got %s, want > %s", got, want)
		}
	}
}

func TestGet(t *testing.T) {
	obj := []byte(`{"a":{"b":1},"\u0062":[ 2 ],"n":null,"":"e"}`)
	for name, want := range map[string]string{"a": `{"b":1}`, "b": `[ 2 ]`, "n": `null`, "": `"e"`} {
		if got := Get(obj, name); string(got) != want {
			t.Errorf("Get(%q) = %s, want %s", name, got, want)
		}
	}
	for _, absent := range []string{"c", "aa", `\u0062`} {
		if got := Get(obj, absent); got != nil {
			t.Errorf("Get(%q) = %s, want nil", absent, got)
		}
	}
	for _, value := range []string{`["a",1]`, `null`, ``} {
		if got := Get([]byte(value), "a"); got != nil {
			t.Errorf("Get of %q = %s, want nil", value, got)
		}
	}
}

func TestString(t *testing.T) {
	for value, want := range map[string]string{
		`""`: "", `"plain"`: "plain", ` "é€😀" `: "é€😀",
		`"\"\\\/\b\f\n\r\t"`:                     "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\u20AC\ud83d\ude00\u0000"`: "Aé€😀\x00",
		`"a\nb\nc"`:                              "a\nb\nc",
	} {
		if got, ok := String([]byte(value)); got != want || !ok {
			t.Errorf("String(%s) = %q, %v, want %q", value, got, ok, want)
		}
		if got, ok := Text([]byte(value)); string(got) != want || !ok {
			t.Errorf("Text(%s) = %q, %v, want %q", value, got, ok, want)
		}
	}
	for _, value := range []string{``, `1`, `null`, `{}`, `["a"]`, `"`, `"a`, `"a\"`} {
		if got, ok := String([]byte(value)); ok || got != "" {
			t.Errorf("String(%s) = %q, %v, want not ok", value, got, ok)
		}
		if got, ok := Text([]byte(value)); ok || got != nil {
			t.Errorf("Text(%s) = %q, %v, want not ok", value, got, ok)
		}
	}
}

func Example() {
	body := []byte(`{"method":"tools/call","params":{"name":"update","arguments":{"b":1.0,"a":"\u0041"}}}`)
	if err := Check(body, 64); err != nil {
		fmt.Println(err)
		return
	}
	params := Get(body, "params")
	name, _ := String(Get(params, "name"))
	fmt.Println(name)
	fmt.Printf("%s\n", AppendCanonical(nil, Get(params, "arguments")))
	fmt.Println(Check([]byte(`{"amount":1,"amount":1000}`), 64))
	// Output:
	// update
	// {"a":"A","b":1e0}
	// invalid JSON at offset 12: duplicate member name
}
