//go:build linux

package faults

import (
	"cmp"
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Unanswered returns, for each key, the longest time without a response.
//
// The time of a key starts when a request for the key is sent. It ends with the first successful
// response (complete, status 200) to that request, or to a request for the same key that was sent at
// the same time or later. So the time continues after a failed request until a later request
// succeeds (load.Options.RetryFailed sends one at once). A request that hangs does not count any more
// when a later request for its key has succeeded. The time includes retries of the client at other
// nodes. If a key is never served again, its time ends with the last response for any key.
//
// The time starts only with the first request after a fault, so it is too short by up to the interval
// between two requests for the key. The longest time among many keys that stop at once, such as those
// of one owner, has a much smaller error.
func Unanswered(responses []history.Response) map[string]time.Duration {
	byKey := make(map[string][]history.Response)
	var lastResponse int64
	for _, resp := range responses {
		byKey[resp.Key] = append(byKey[resp.Key], resp)
		lastResponse = max(lastResponse, resp.DoneAt())
	}
	longest := make(map[string]time.Duration, len(byKey))
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return cmp.Compare(a.SentAt(), b.SentAt()) })
		servedAt := lastResponse
		for _, resp := range slices.Backward(all) {
			if resp.OK() {
				servedAt = min(servedAt, resp.DoneAt())
			}
			longest[key] = max(longest[key], time.Duration(servedAt-resp.SentAt()))
		}
	}
	return longest
}

// Longest returns the longest time among the keys for which isIncluded returns true.
func Longest(unanswered map[string]time.Duration, isIncluded func(key string) bool) time.Duration {
	var longest time.Duration
	for key, duration := range unanswered {
		if isIncluded(key) {
			longest = max(longest, duration)
		}
	}
	return longest
}
