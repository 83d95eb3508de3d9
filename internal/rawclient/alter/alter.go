// Package alter changes a requestState as an attacker would, who has no key: a character, the end, or a value inside
// an encoding that anybody can undo. The same words describe a change here, in the corpus and in transcripts.
package alter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// MaxState bounds the states that are changed, in bytes.
const MaxState = 1 << 20

// State returns the state with one change:
//
//	flip N          the character N is another one of its alphabet
//	cut N           the last N characters are missing
//	random N        as many characters of the same alphabet, by the number N
//	set PATH JSON   the value at the path of a [Leaf] is another one
//	swap JSON JSON  a text is another one, in every value that can be read
//
// It never returns the state unchanged.
func State(state, how string) (changed string, err error) {
	if len(state) > MaxState {
		return "", fmt.Errorf("a state of more than %d bytes is not changed", MaxState)
	}
	word, rest, _ := strings.Cut(how, " ")
	switch word {
	case "flip", "cut", "random":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", fmt.Errorf("the change %.40q of a state: want a number after %s", how, word)
		}
		changed = map[string]func(string, int) string{"flip": flip, "cut": cut, "random": random}[word](state, n)
	case "set":
		path, value, _ := strings.Cut(rest, " ")
		for _, leaf := range Leaves(state) {
			if leaf.Path == path {
				changed = leaf.With(value)
				break
			}
		}
	case "swap":
		changed = swap(state, rest)
	default:
		return "", fmt.Errorf("the change %.40q of a state: want flip, cut, random, set or swap", how)
	}
	if changed == state || changed == "" {
		return "", errors.New("the change " + strconv.Quote(fmt.Sprintf("%.40s", how)) + " does not apply to this state")
	}
	return changed, nil
}

// swap replaces a text by another one, in every value that can be read or, if none has it, as it stands.
func swap(state, texts string) (changed string) {
	var before, after string
	decoder := json.NewDecoder(strings.NewReader(texts))
	if decoder.Decode(&before) != nil || decoder.Decode(&after) != nil || before == "" {
		return ""
	}
	const least = 5 // characters that are a part of a value; shorter ones have to be the whole
	changed = state
	for _, leaf := range Leaves(state) {
		text := fmt.Sprint(leaf.Value)
		has := text == before || len(before) >= least && strings.Contains(text, before)
		if !has || strings.Contains(leaf.Path, "unsigned:") {
			continue
		}
		value := strings.ReplaceAll(text, before, after)
		if _, quoted := leaf.Value.(string); quoted {
			b, _ := json.Marshal(value) // a text has a JSON form
			value = string(b)
		}
		for _, now := range Leaves(changed) {
			if now.Path == leaf.Path {
				changed = cmp.Or(now.With(value), changed)
				break
			}
		}
	}
	if changed == state && (len(before) >= least || state == before) {
		changed = strings.ReplaceAll(state, before, after)
	}
	return changed
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// alphabet returns the characters that a state is made of, as far as letters and digits go.
func alphabet(state string) string {
	if strings.Trim(state, "0123456789abcdef-") == "" {
		return "0123456789abcdef"
	}
	if strings.ContainsAny(state, "+/") {
		return base64Alphabet[:62] + "+/"
	}
	return base64Alphabet
}

// flip replaces a character by the one half an alphabet away. In base64 and in hexadecimal this changes the highest
// bit, which counts even in a last character whose lower bits do not.
func flip(state string, n int) string {
	letters := alphabet(state)
	for ; n < len(state); n++ {
		c := state[n]
		if i := strings.IndexByte(letters, c); i >= 0 && isWord(c) {
			return state[:n] + string(letters[i^len(letters)/2]) + state[n+1:]
		}
	}
	return state
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func cut(state string, n int) string { return state[:max(0, len(state)-n)] }

// random keeps what is neither letter nor digit, so that a state of several parts keeps its form.
func random(state string, seed int) string {
	letters := alphabet(state)
	source := rand.New(rand.NewPCG(uint64(seed), uint64(len(state))))
	b := []byte(state)
	for i, c := range b {
		if isWord(c) {
			b[i] = letters[source.IntN(len(letters))]
		}
	}
	return string(b)
}

// Flips returns changes of single characters, spread over the state. The last three characters stay, because not all of
// their bits count.
func Flips(state string, n int) (hows []string) {
	end := len(strings.TrimRight(state, "=")) - 3
	for i := range n {
		if at := end * (2*i + 1) / (2 * n); at >= 0 && end > 0 {
			hows = append(hows, fmt.Sprintf("flip %d", at))
		}
	}
	return hows
}

// Cuts returns changes that cut off the last part, a quarter and half of the state.
func Cuts(state string) (hows []string) {
	if i := strings.LastIndexAny(state, ".:|~"); i > 0 && len(state)-i > 1 {
		hows = append(hows, fmt.Sprintf("cut %d", len(state)-i-1), fmt.Sprintf("cut %d", len(state)-i))
	}
	for _, part := range []int{4, 2} {
		if n := len(state) / part; n > 4 {
			hows = append(hows, fmt.Sprintf("cut %d", n))
		}
	}
	return hows
}
