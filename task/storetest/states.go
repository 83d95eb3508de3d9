package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// StateStore is the interface of that name in package askback, which says what it promises.
type StateStore interface {
	PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error
	SwapState(ctx context.Context, id, call string, old, data []byte, expires time.Time) (swapped bool, err error)
	GetState(ctx context.Context, id string) (data []byte, err error)
	FindStates(ctx context.Context, call string, limit int) (data [][]byte, err error)
	DeleteState(ctx context.Context, id string) error
}

// RunStates runs the suite for stores of states. It calls database for each test, for one without states that nobody
// else uses; what that returns opens a handle on it, which the test uses beside others and the caller closes. A store
// that is for one handle only returns the same one each time.
func RunStates(t *testing.T, database func(t *testing.T) (open func(t *testing.T) StateStore)) {
	for _, test := range []struct {
		says string
		run  func(f *states)
	}{
		{"what is not there is nil, and states without a call are not found", func(f *states) {
			f.put(f.a, "id", "call", "data", long)
			f.put(f.a, "without", "", "data", long)
			f.wantState(f.a, "without", "data")
			for _, id := range []string{"", "i", "id2", "ID", "call", "i\x00", "\xff"} {
				f.wantNone(f.a, id)
			}
			for _, call := range []string{"", "c", "call2", "CALL", "id", "c\x00", "\xff"} {
				f.wantFound(f.a, call)
			}
		}},
		{"put again, data, call and expiry are others", func(f *states) {
			f.put(f.a, "id", "call", "data", long)
			f.put(f.b, "id", "another", "", long)
			f.wantState(f.a, "id", "")
			f.wantFound(f.a, "call")
			f.wantFound(f.a, "another", "")
			f.put(f.a, "id", "another", "data", -time.Second)
			f.wantNone(f.b, "id")
			f.wantFound(f.b, "another")
		}},
		{"a state is swapped if it is the one that is expected", func(f *states) {
			f.wantSwap(f.a, "id", "call", "x", "data", long, false)
			f.wantNone(f.b, "id")
			f.wantSwap(f.a, "id", "call", none, "", long, true)
			f.wantState(f.b, "id", "")
			for _, other := range []string{none, "x"} {
				f.wantSwap(f.b, "id", "another", other, "data", long, false)
			}
			f.wantSwap(f.b, "id", "another", "", "data", long, true)
			f.wantFound(f.a, "call")
			f.wantFound(f.a, "another", "data")
			for _, other := range []string{none, "", "dat", "data2", "DATA"} {
				f.wantSwap(f.a, "id", "call", other, "newer", long, false)
			}
			f.wantState(f.b, "id", "data")
			f.wantSwap(f.a, "id", "", "data", string(everyByte), long, true)
			f.wantFound(f.b, "another")
			f.wantSwap(f.b, "id", "call", string(everyByte), "newer", -time.Second, true)
			f.wantNone(f.a, "id")
			f.wantSwap(f.a, "id", "call", "newer", "data", long, false) // it has expired
			f.wantSwap(f.a, "id", "call", none, "data", long, true)
			f.wantState(f.b, "id", "data")
			f.ok("DeleteState", f.b.DeleteState(f.ctx, "id"))
			f.wantSwap(f.a, "id", "call", "data", "newer", long, false)
			f.wantNone(f.b, "id")
		}},
		{"of swaps at once from one state one succeeds", func(f *states) {
			old := []byte(nil)
			for n := range 10 {
				won := together(&f.suite, 8, func(i int, add func(string)) error {
					data := fmt.Sprint(n, i)
					swapped, err := []StateStore{f.a, f.b}[i%2].SwapState(f.ctx, "id", "call", old, []byte(data), time.Now().Add(long))
					if swapped {
						add(data)
					}
					return err
				})
				f.require(len(won) == 1, "%d swaps succeeded", len(won))
				f.wantState(f.b, "id", won[0])
				old = []byte(won[0])
			}
		}},
		{"a state expires by itself", func(f *states) {
			f.put(f.a, "id", "call", "data", 300*time.Millisecond)
			f.put(f.a, "other", "call", "other", long)
			f.eventually("the state has expired", func() bool { return f.get(f.b, "id") == nil })
			f.wantFound(f.b, "call", "other")
		}},
		{"all states of a call are found, up to the limit", func(f *states) {
			for i := range 3 {
				f.put(f.a, fmt.Sprint("id ", i), "call", fmt.Sprint(i), long)
			}
			f.put(f.a, "expired", "call", "expired", -time.Second)
			f.put(f.a, "id", "another", "another", long)
			f.wantFound(f.b, "call", "0", "1", "2")
			for limit := range 4 {
				found := f.find(f.b, "call", limit)
				f.check(len(found) == limit, "with a limit of %d: %q", limit, found)
			}
		}},
		{"a deleted state is not there, and can be deleted again", func(f *states) {
			f.put(f.a, "id", "call", "data", long)
			f.put(f.a, "other", "call", "other", long)
			for range 2 {
				f.ok("DeleteState", f.b.DeleteState(f.ctx, "id"))
			}
			f.wantNone(f.a, "id")
			f.wantFound(f.a, "call", "other")
		}},
		{"data are any bytes, and many", func(f *states) {
			all := string(everyByte)
			large := strings.Repeat(all, 4<<20/256)
			f.put(f.a, "all", "", all, long)
			f.put(f.a, "large", strings.Repeat("c", 64), large, long)
			f.wantState(f.b, "all", all)
			f.wantState(f.b, "large", large)
		}},
		{"who puts and who gets may do with the bytes what they like", func(f *states) {
			data := []byte("data")
			f.ok("PutState", f.a.PutState(f.ctx, "id", "call", data, time.Now().Add(long)))
			clear(data)
			for range 2 {
				f.wantState(f.a, "id", "data")
				clear(f.get(f.a, "id"))
				f.wantFound(f.a, "call", "data")
				clear(f.find(f.a, "call", 1)[0])
			}
		}},
		{"of states put at once under one id one is there", func(f *states) {
			together(&f.suite, 8, func(i int, _ func(any)) error {
				s := []StateStore{f.a, f.b}[i%2]
				for n := range 20 {
					put := s.PutState(f.ctx, "id", "call", bytes.Repeat([]byte{byte('a' + i)}, 100+n), time.Now().Add(long))
					putOld := s.PutState(f.ctx, fmt.Sprint(i, n), "old", nil, time.Now().Add(-long))
					data, get := s.GetState(f.ctx, "id")
					if err := errors.Join(put, putOld, get); err != nil {
						return err
					}
					if len(data) < 100 || len(bytes.Trim(data, string(data[:1]))) > 0 {
						return fmt.Errorf("GetState: %q", data)
					}
				}
				return nil
			})
			found := f.find(f.a, "call", 5)
			f.check(len(found) == 1, "FindStates: %q", found)
		}},
		{"a context that has ended ends the call, or it does no harm", func(f *states) {
			ended, cancel := context.WithCancel(f.ctx)
			cancel()
			if err := f.a.PutState(ended, "id", "call", []byte("data"), time.Now().Add(long)); err != nil {
				f.wantError("PutState", err, context.Canceled)
				f.wantNone(f.a, "id")
			}
		}},
	} {
		parallel(t, test.says, func(in suite) {
			open := database(in.T)
			test.run(&states{in, open(in.T), open(in.T)})
		})
	}
}

// states are two handles on one database, and what the tests do with it.
type states struct {
	suite
	a, b StateStore
}

func (f *states) put(s StateStore, id, call, data string, ttl time.Duration) {
	f.ok("PutState", s.PutState(f.ctx, id, call, []byte(data), time.Now().Add(ttl)))
}

// none is what a swap expects where there is nothing.
const none = "(none)"

func (f *states) wantSwap(s StateStore, id, call, old, data string, ttl time.Duration, want bool) {
	expected := []byte(old)
	if old == none {
		expected = nil
	}
	swapped := must(s.SwapState(f.ctx, id, call, expected, []byte(data), time.Now().Add(ttl)))(f, "SwapState")
	f.require(swapped == want, "SwapState(%q) from %.100q: %v, want %v", id, old, swapped, want)
}

func (f *states) get(s StateStore, id string) []byte {
	return must(s.GetState(f.ctx, id))(f, "GetState")
}

func (f *states) find(s StateStore, call string, limit int) [][]byte {
	return must(s.FindStates(f.ctx, call, limit))(f, "FindStates")
}

func (f *states) wantState(s StateStore, id, want string) {
	data := f.get(s, id)
	f.require(data != nil && string(data) == want, "GetState(%q): %.100q, want %.100q", id, data, want)
}

func (f *states) wantNone(s StateStore, id string) {
	data := f.get(s, id)
	f.require(data == nil, "GetState(%q): %.100q, want none", id, data)
}

func (f *states) wantFound(s StateStore, call string, want ...string) {
	got := each(f.find(s, call, 100), func(data []byte) string { return string(data) })
	slices.Sort(got)
	f.wantEqual(fmt.Sprintf("FindStates(%q)", call), got, want)
}
