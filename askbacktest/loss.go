package askbacktest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/token"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// loss names the part of a step's result that data, its JSON, does not keep, or returns "".
func loss(result any, data []byte) string {
	if result == nil {
		return ""
	}
	decoded := reflect.New(reflect.TypeOf(result))
	if json.Unmarshal(data, decoded.Interface()) != nil {
		return "" // askback.Do returns that error
	}
	r := new(lossReporter)
	cmp.Equal(result, decoded.Elem().Interface(), kept(), cmp.Reporter(r))
	return r.loss
}

// kept compares a value with what its JSON decodes to. A type that encodes itself is trusted with its unexported
// fields. Nil and empty are the same, as are two values of an interface with the same JSON, such as an int and its
// float64.
func kept() cmp.Options {
	return cmp.Options{
		cmp.Exporter(func(reflect.Type) bool { return true }),
		cmp.FilterPath(opaque, cmp.Comparer(sameJSON)),
		cmp.FilterPath(func(p cmp.Path) bool { return !opaque(p) }, cmpopts.EquateEmpty()),
		cmp.FilterPath(func(p cmp.Path) bool {
			field, ok := p.Last().(cmp.StructField)
			return ok && !token.IsExported(field.Name()) && encodesItself(p.Index(-2).Type())
		}, cmp.Ignore()),
		cmp.FilterValues(func(x, y any) bool { return reflect.TypeOf(x) != reflect.TypeOf(y) },
			cmp.Comparer(func(x, y any) bool {
				return keepsItself(x) && keepsItself(y) && sameJSON(x, y)
			})),
	}
}

func keepsItself(v any) bool {
	data, err := json.Marshal(v)
	return err == nil && loss(v, data) == ""
}

// opaque reports whether only the JSON of the value at p shows its content.
func opaque(p cmp.Path) bool {
	t := p.Last().Type()
	if t == nil || t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface || !encodesItself(t) {
		return false
	}
	if t.Kind() == reflect.Struct {
		for field := range t.Fields() {
			if field.IsExported() {
				return false
			}
		}
	}
	return true
}

func encodesItself(t reflect.Type) bool {
	for _, i := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// sameJSON compares what two values encode to, in which the order of members does not count.
func sameJSON(x, y any) bool { return reflect.DeepEqual(decode(x), decode(y)) }

// lossReporter describes the first difference that cmp finds.
type lossReporter struct {
	path cmp.Path
	loss string
}

func (r *lossReporter) PushStep(s cmp.PathStep) { r.path = append(r.path, s) }
func (r *lossReporter) PopStep()                { r.path = r.path[:len(r.path)-1] }

func (r *lossReporter) Report(res cmp.Result) {
	if res.Equal() || r.loss != "" {
		return
	}
	name, remedy := r.path.Index(0).Type().String(), "give its type a MarshalJSON and an UnmarshalJSON that keep it"
	for i, s := range r.path {
		switch s := s.(type) {
		case cmp.StructField:
			name += "." + s.Name()
			field := r.path[i-1].Type().Field(s.Index())
			switch {
			case !field.IsExported():
				remedy = "export the field"
			case field.Tag.Get("json") == "-":
				remedy = `remove the tag json:"-"`
			}
		case cmp.SliceIndex, cmp.MapIndex:
			name += s.String()
		}
	}
	before, after := r.path.Last().Values()
	r.loss = fmt.Sprintf("%s: %s → %s: %s, or return from the step only what the handler reads",
		strings.TrimLeft(name, "*"), short(before), short(after), remedy)
}

// short formats a value, which may be unexported or missing, in a few characters.
func short(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return "nothing"
	case v.Kind() == reflect.String:
		return fmt.Sprintf("%q", cut(v.String()))
	}
	return cut(fmt.Sprint(v))
}
