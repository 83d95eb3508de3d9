package desk

import "slices"

// Concerns reports whether a person may see a question: whether they may answer it (see [Question.May]), have voted on
// it, or began it, which is that their own call asks it.
func (q *Question) Concerns(p Person) bool {
	voted := func(v Vote) bool { return v.Who == p.Name }
	return p.check() == nil && len(q.For) > 0 && (mayAnswer(q.For, q.Principal, &p) == nil || q.Principal == p.Name ||
		slices.ContainsFunc(q.Count, voted) || slices.ContainsFunc(q.Earlier, voted))
}

// May reports whether a person may answer a question, as long as it is open. The error is nil if so, an [ErrOwnCall] if
// they could answer it if the call were not their own, a [task.ErrNotFound] if they are not asked, and an
// [*InvalidError] for a person who cannot be one.
func (q *Question) May(p Person) error {
	if err := p.check(); err != nil {
		return err
	}
	return mayAnswer(q.For, q.Principal, &p)
}
