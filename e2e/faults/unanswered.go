//go:build linux

package faults

import (
	"cmp"
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Unanswered returns, for each key, the longest time for which it went
// unanswered.
//
// From the moment at which a request for a key is sent the key is unanswered,
// until the first good answer (200, whole) to that request or to one for the same
// key that was sent no earlier. So a request that fails leaves its key unanswered
// until a later one is served (load.Options.Again sends one at once), and one that
// hangs is no longer held against its key once a later one is served. What a client does to send a request again
// elsewhere is part of it. A key that is never served again counts to the end of
// what was seen.
//
// A key is only seen through its requests: a fault that hits just after an answer
// is noticed by the next request, so the time is short by at most the distance
// between two requests. Of the keys of one owner, which all stop together, the
// longest is short by far less.
func Unanswered(answers []history.Response) map[string]time.Duration {
	byKey := make(map[string][]history.Response)
	var end int64
	for _, a := range answers {
		byKey[a.Key] = append(byKey[a.Key], a)
		end = max(end, a.Done())
	}
	longest := make(map[string]time.Duration, len(byKey))
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return cmp.Compare(a.Sent(), b.Sent()) })
		served := end
		for _, a := range slices.Backward(all) {
			if a.OK() {
				served = min(served, a.Done())
			}
			longest[key] = max(longest[key], time.Duration(served-a.Sent()))
		}
	}
	return longest
}

// Longest is the greatest of the times, over the keys that count.
func Longest(times map[string]time.Duration, counts func(key string) bool) time.Duration {
	var most time.Duration
	for key, d := range times {
		if counts(key) {
			most = max(most, d)
		}
	}
	return most
}
