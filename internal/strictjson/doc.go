// Package strictjson reads JSON from senders who may be hostile. It refuses every document that two readers could
// understand differently, finds members without decoding, and digests values so that equal values share a digest, and
// others do not.
//
// Check the bytes once, where they enter; then walk them as raw slices:
//
//	if err := strictjson.Check(body, 64); err != nil {
//		return err // *strictjson.Error; safe to send and to log
//	}
//	params := strictjson.Get(body, "params")
//	name, ok := strictjson.String(strictjson.Get(params, "name"))
//	digest := strictjson.Digest(strictjson.Get(params, "arguments"))
//
// An [Outline] keeps where the outer members are while it checks them, for documents whose members are all looked at.
//
// # What it promises
//
// What passed [Check] means the same to every reader of RFC 8259: one value, no two members of an object with one
// name (however it is escaped), valid UTF-8 throughout, no half of a surrogate pair, no nesting that would exhaust a
// stack. Errors name an offset and a reason, and never quote the document.
//
// All other functions require a value that passed Check, or a part of one that Members, Elements or Get returned.
// Surrounding white space is ignored. For any other bytes their result is unspecified, but they do not panic, do not
// read out of bounds, and take linear time.
//
// Time and memory are linear in the size of the input for all of them (sorting names adds a logarithm), for every
// input. Slices that they return share the input's memory, which must not be changed while they are in use. All
// functions are safe for concurrent use.
//
// # Canonical form
//
// [AppendCanonical] writes a value without white space, in UTF-8, as RFC 8785 does, except for its numbers:
//
//   - Members are sorted by their unescaped names, compared as sequences of
//     UTF-16 code units.
//   - Strings hold every character as itself, except \" and \\, the control
//     characters \b \t \n \f \r, and the other ones below U+0020 as \u00xx with
//     lower-case digits.
//   - A number is its exact decimal value, not the nearest float64. Zero, with
//     any sign and exponent, is 0. Any other is an optional minus sign, the
//     coefficient, the letter e and the exponent, such that the value is
//     coefficient × 10^exponent. The coefficient is a positive integer which
//     does not end in 0; the exponent is an integer, with a minus sign if it is
//     negative. Both are in decimal digits, of any number, without leading
//     zeros; exponent zero is 0. So 1, 1.0 and 10e-1 are 1e0, -1500 is -15e2,
//     and 0.25 is 25e-2.
//
// The form is itself JSON that passes Check, and its own canonical form. [AppendJCS] writes numbers as people and other
// programs do.
package strictjson
