// Package suggest finds the known word that a misspelled one most likely means ("did you
// mean"). It is pure.
package suggest

import "strings"

// Word returns the word that is closest to a misspelled one, or "" if none is close. A candidate
// that begins with the misspelled word is treated as close.
func Word(word string, words []string) string {
	best, bestDistance := "", max(1, len(word)/4)+1
	for _, candidate := range words {
		distanceToWord := distance(word, candidate)
		if len(word) >= 3 && strings.HasPrefix(candidate, word) {
			distanceToWord = min(distanceToWord, 1)
		}
		if distanceToWord < bestDistance {
			best, bestDistance = candidate, distanceToWord
		}
	}
	return best
}

// distance returns the optimal string alignment distance of two words: the number of
// insertions, deletions, substitutions and transpositions of adjacent bytes.
func distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	current := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(prev[j]+1, current[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], prev2[j-2]+1)
			}
		}
		prev2, prev, current = prev, current, prev2
	}
	return prev[len(b)]
}
