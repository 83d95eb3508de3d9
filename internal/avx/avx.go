// Package avx works around a cost of mixed vector instructions.
package avx

import "bytes"

// ZeroUpper frees the upper halves of the processor's vector registers. While they are in use, hashing and sealing,
// which need only the lower halves, take several times as long. The assembly of segmentio/asm 1.1.3 to 1.2.1 leaves them in
// use, because it has no VZEROUPPER. Digests of large arguments met them in use at other times as well; what does that is
// not known.
func ZeroUpper() {
	bytes.IndexByte(zeros[:], 1) // which is vectorized from 33 bytes on, and frees them
}

var zeros [64]byte
