package primes

// boundary is where the parts of the numbers from 2 and below n meet: part i begins at boundary i.
func boundary(n, i int) int { return 2 + (n-2)*i/parts }

// count returns how many primes there are from a number, at least 2, and below another: a sieve of that segment alone.
func count(from, below int) int {
	if below <= from {
		return 0
	}
	composite := make([]bool, below-from)
	for d := 2; d*d < below; d++ { // primes would do, but to tell them is another sieve
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
