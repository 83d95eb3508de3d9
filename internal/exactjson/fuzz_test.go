package exactjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	Duration time.Duration     `json:"duration"`
	Number   json.Number       `json:"number"`
	Hidden   string            `json:"-"`
	own      string            // nobody can set it
}

type embedding struct {
	nested
	Name string `json:"name"`
}

type odd struct {
	Quoted int    `json:"quoted,string"`
	Spaced string `json:"a b"`
}

// What the decoders here take, they decode as the library does; and whatever they do not take, the library decodes.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a\u00e9\n","Plain":true,"small":-128,"large":9007199254740993,"unsigned":1,"float":1.5e3,"short":0.1,"raw":{"a": 1},"raws":[1, null,"x"]}`,
		`{"nested":{"id":1,"tags":[],"sub":[{"id":2}]},"pointer":{"tags":["a"]},"list":[{"id":1},{"sub":[]}],"bytes":"aGk=","fixed":[1,2,3],"any":[1,{"a":null}]}`,
		`{"map":{"a":1},"time":"2026-07-28T00:00:00Z","duration":"1s","number":1e400,"-":"x","Hidden":"y","own":"z","NAME":"no"}`,
		`{"name":null,"Plain":null,"small":null,"raw":null,"raws":null,"nested":null,"pointer":null,"list":null,"float":null}`,
		`{"small":128}`, `{"small":1.0}`, `{"large":1e3}`, `{"large":-0}`, `{"float":1e400}`, `{"short":1e39}`, `{"Plain":"true"}`, `{"name":1}`, `{"list":{}}`, `{"raws":[1,2,3,4,5,6]}`,
		`{"quoted":"1","a b":"x"}`, `{"id":1,"tags":["x"]}`, `[]`, `null`, `"a"`, ` {"name" : "a" } `,
	} {
		f.Add([]byte(seed))
	}
	types := []reflect.Type{reflect.TypeFor[everything](), reflect.TypeFor[embedding](), reflect.TypeFor[odd](), reflect.TypeFor[[]nested](),
		reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[map[string]any](), reflect.TypeFor[any]()}
	options := cmp.Options{cmp.AllowUnexported(everything{}, embedding{}), cmpopts.EquateNaNs()}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data, 64) != nil {
			return
		}
		for _, typ := range types {
			own, library := reflect.New(typ), reflect.New(typ)
			wantErr := byLibrary(data, library.Interface())
			_, taken := decoderFor(typ)(new(texts), strictjson.At(data), own.Elem())
			if taken && wantErr != nil {
				t.Fatalf("%s taken into %s: %v; the library: %v", data, typ, own.Elem(), wantErr)
			}
			if diff := cmp.Diff(library.Elem().Interface(), own.Elem().Interface(), options); taken && diff != "" {
				t.Fatalf("%s into %s (library, own):\n%s", data, typ, diff)
			}
			own = reflect.New(typ)
			if err := Unmarshal(data, own.Interface()); (err == nil) != (wantErr == nil) {
				t.Fatalf("%s into %s: %v, want %v", data, typ, err, wantErr)
			}
			if e, ok := own.Interface().(*everything); ok && e.own != "" {
				t.Fatalf("%s into a field that is not exported", data)
			}
			if wantErr != nil {
				continue
			}
			if diff := cmp.Diff(library.Elem().Interface(), own.Elem().Interface(), options); diff != "" {
				t.Fatalf("%s into %s (library, own):\n%s", data, typ, diff)
			}
		}
	})
}

// The plain types are decoded here, not by the library: otherwise the comparison would compare nothing.
func TestPlainTypesAreTaken(t *testing.T) {
	var into struct {
		Name   string            `json:"name"`
		Count  int               `json:"count"`
		Ratio  float64           `json:"ratio"`
		Sure   bool              `json:"sure"`
		Nested nested            `json:"nested"`
		List   []int             `json:"list"`
		Raws   []json.RawMessage `json:"raws"`
	}
	data := []byte(`{"name":"a","count":1,"ratio":0.5,"sure":true,"nested":{"tags":["x"]},"list":[1],"raws":[{"a":1}],"other":1}`)
	v := reflect.ValueOf(&into).Elem()
	if _, taken := decoderFor(v.Type())(nil, strictjson.At(data), v); !taken || into.Nested.Tags[0] != "x" || string(into.Raws[0]) != `{"a":1}` {
		t.Errorf("%+v", into)
	}
	for _, bad := range []string{`{"name":1}`, `{"count":"1"}`, `{"count":1.5}`, `{"sure":null}`, `{"nested":[]}`} {
		if _, taken := decoderFor(v.Type())(nil, strictjson.At([]byte(bad)), v); taken {
			t.Errorf("%s is taken", bad)
		}
	}
}

// The strings of a large value are allocated together, and each has its own text.
func TestManyTexts(t *testing.T) {
	var want struct{ Texts []string }
	for i := range 5000 {
		want.Texts = append(want.Texts, strings.Repeat(string(rune('a'+i%26)), i%300), "é")
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := want
	allocations := testing.AllocsPerRun(1, func() {
		got.Texts = nil
		if err := Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
	})
	if !slices.Equal(got.Texts, want.Texts) {
		t.Error("the texts are others")
	}
	if allocations > float64(len(want.Texts)/2) {
		t.Errorf("%v allocations for %d texts", allocations, len(want.Texts))
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	data := []byte(`{"place":"New York","count":3,"tags":["a","b"]}`)
	for b.Loop() {
		var into struct {
			Place string   `json:"place"`
			Count int      `json:"count"`
			Tags  []string `json:"tags"`
		}
		if err := Unmarshal(data, &into); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalLarge(b *testing.B) {
	type item struct {
		Name  string   `json:"name"`
		Count int      `json:"count"`
		Tags  []string `json:"tags"`
	}
	const one = `{"name":"a thing of this list","count":1234,"tags":["red","green","blue"]}`
	data := []byte("[" + strings.Repeat(one+",", 1<<20/(len(one)+1)) + one + "]")
	for _, by := range []struct {
		name      string
		unmarshal func([]byte, any) error
	}{{"own", Unmarshal}, {"encoding/json", json.Unmarshal}} {
		b.Run(by.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				var into []item
				if err := by.unmarshal(data, &into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
