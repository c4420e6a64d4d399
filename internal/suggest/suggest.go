// Package suggest finds the word that a misspelt one was meant to be. It is pure.
package suggest

import "strings"

// Word returns the word that a misspelt one most likely meant, or "" when
// none is close. A word that begins with the misspelt one counts as close.
func Word(word string, words []string) string {
	best, least := "", max(1, len(word)/4)+1
	for _, w := range words {
		d := distance(word, w)
		if len(word) >= 3 && strings.HasPrefix(w, word) {
			d = min(d, 1)
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours between two words (optimal string alignment).
func distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
