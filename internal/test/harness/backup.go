package harness

import (
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/askback-mcp/askback/task"
)

// Backup copies a store, and returns what puts it back. The store's own lock keeps others out meanwhile.
func Backup(s *task.MemoryStore) (restore func()) {
	live := reflect.ValueOf(s).Elem()
	lock := open(live.FieldByName("mu")).Addr().Interface().(*sync.Mutex)
	saved := reflect.New(live.Type()).Elem()
	fields := func(do func(saved, live reflect.Value)) {
		lock.Lock()
		defer lock.Unlock()
		for i := range live.NumField() {
			if live.Type().Field(i).Name != "mu" {
				do(open(saved.Field(i)), open(live.Field(i)))
			}
		}
	}
	copies := make(map[unsafe.Pointer]reflect.Value)
	fields(func(saved, live reflect.Value) { duplicate(saved, live, copies) })
	return func() { fields(func(saved, live reflect.Value) { live.Set(saved) }) }
}

// duplicate copies a value with all that it refers to. Two that refer to one thing refer to one copy.
func duplicate(to, from reflect.Value, copies map[unsafe.Pointer]reflect.Value) {
	kind := from.Kind()
	if (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map) && from.IsNil() {
		return
	}
	switch kind {
	case reflect.Pointer:
		copied, known := copies[from.UnsafePointer()]
		if !known {
			copied = reflect.New(from.Type().Elem())
			copies[from.UnsafePointer()] = copied
			duplicate(copied.Elem(), from.Elem(), copies)
		}
		to.Set(copied)
	case reflect.Struct:
		if _, is := from.Interface().(time.Time); is {
			to.Set(from)
			return
		}
		for i := range from.NumField() {
			duplicate(open(to.Field(i)), open(from.Field(i)), copies)
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			duplicate(to.Index(i), from.Index(i), copies)
		}
	case reflect.Map:
		to.Set(reflect.MakeMap(from.Type()))
		for key, value := range from.Seq2() {
			held, copied := reflect.New(value.Type()).Elem(), reflect.New(value.Type()).Elem()
			held.Set(value)
			duplicate(copied, held, copies)
			to.SetMapIndex(key, copied)
		}
	default:
		to.Set(from)
	}
}

// open returns a field that can be read and set although it is not exported.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
}
