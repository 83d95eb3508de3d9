package askbacktest

import "sync"

// Effects counts what a handler does to the outside, such as an email that is sent. The test's fakes record what they
// do, and the test fails if the handler causes it outside of a step, where it would happen again in every round:
//
//	func (m *mailer) Send(ctx context.Context, to, text string) error { // a fake
//		m.effects.Record("send email")
//		return nil
//	}
//
// [Call.Effects] tells Run of it. The zero value is ready to use, and safe for concurrent use; it serves one Run at a
// time. What is recorded while no handler runs, as when a test prepares its fakes, is only counted.
type Effects struct {
	mu     sync.Mutex
	counts map[string]int
	probe  *probe // The probe of the request that is served now, or nil.
}

// Record counts an effect under a name.
func (e *Effects) Record(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = make(map[string]int)
	}
	e.counts[name]++
	if e.probe != nil {
		e.probe.effect(name)
	}
}

// Count returns how often the effect was recorded. Unless [Call.Lossless] is set Run sends every request twice, and a
// step runs in both: a fake that recognises [askback.Call.IdempotencyKey], as the outside should, records the first one
// only.
func (e *Effects) Count(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[name]
}

// follow sets the probe for the effects of a request, or nil after it.
func (e *Effects) follow(p *probe) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe = p
}
