package primes

// boundary returns the number at which part i of the numbers from 2 to n-1 begins.
func boundary(n, i int) int { return 2 + (n-2)*i/parts }

// count returns the number of primes from from, at least 2, to below-1. It sieves that segment alone.
func count(from, below int) int {
	if below <= from {
		return 0
	}
	composite := make([]bool, below-from)
	for d := 2; d*d < below; d++ { // primes would be enough, but finding them needs another sieve
		for m := max(d*d, (from+d-1)/d*d); m < below; m += d {
			composite[m-from] = true
		}
	}
	primes := 0
	for _, c := range composite {
		if !c {
			primes++
		}
	}
	return primes
}
