package primes

import "testing"

func TestCountAgreesWithTrialDivision(t *testing.T) {
	prime := func(n int) bool {
		for d := 2; d*d <= n; d++ {
			if n%d == 0 {
				return false
			}
		}
		return true
	}
	for from := 2; from < 150; from++ {
		want := 0
		for below := from; below < 300; below++ {
			if got := count(from, below); got != want {
				t.Fatalf("%d primes from %d and below %d, want %d", got, from, below, want)
			}
			if prime(below) {
				want++
			}
		}
	}
}

func TestTheBoundariesLeaveNothingOut(t *testing.T) {
	for n := 2; n < 100; n++ {
		if first, last := boundary(n, 0), boundary(n, parts); first != 2 || last != n {
			t.Errorf("the parts of %d reach from %d to %d, want 2 to %d", n, first, last, n)
		}
		for i := range parts {
			if boundary(n, i) > boundary(n, i+1) {
				t.Errorf("part %d of %d ends before it begins", i+1, n)
			}
		}
	}
}
