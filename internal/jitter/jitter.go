// Package jitter has pauses of random length, so that those who wait for the same do not come back together.
package jitter

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// N returns a time from 0 up to d, which must be positive. It is from crypto/rand, which a test can fix.
func N(d time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Duration(binary.LittleEndian.Uint64(b[:]) % uint64(d))
}

// Around returns a time that differs from d by a quarter at most.
func Around(d time.Duration) time.Duration { return d*3/4 + N(d/2+1) }
