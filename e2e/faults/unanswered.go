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
// The time of a key starts when a request for it is sent. It ends with the first
// successful response (complete, status 200) to that request, or to a request for the
// same key that was sent no earlier. So after a failed request the time continues until a
// later request succeeds (load.Options.RetryFailed sends one at once). A request that
// hangs no longer counts after a later request for its key has succeeded. The time
// includes retries of the client at other nodes. For a key that is never served again,
// the time ends with the last observation.
//
// A key is only observed through its requests: a fault right after a response is detected
// by the next request. So the time is too short by at most the interval between two
// requests. Among the keys of one owner, which all stop at once, the longest time has a
// much smaller error.
func Unanswered(responses []history.Response) map[string]time.Duration {
	byKey := make(map[string][]history.Response)
	var end int64
	for _, resp := range responses {
		byKey[resp.Key] = append(byKey[resp.Key], resp)
		end = max(end, resp.Done())
	}
	longest := make(map[string]time.Duration, len(byKey))
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b history.Response) int { return cmp.Compare(a.Sent(), b.Sent()) })
		servedAt := end
		for _, resp := range slices.Backward(all) {
			if resp.OK() {
				servedAt = min(servedAt, resp.Done())
			}
			longest[key] = max(longest[key], time.Duration(servedAt-resp.Sent()))
		}
	}
	return longest
}

// Longest returns the maximum over the keys that count.
func Longest(unanswered map[string]time.Duration, isIncluded func(key string) bool) time.Duration {
	var longest time.Duration
	for key, d := range unanswered {
		if isIncluded(key) {
			longest = max(longest, d)
		}
	}
	return longest
}
