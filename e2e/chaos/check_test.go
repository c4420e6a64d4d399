//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"testing"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// checkCounters finds counters that were lost, repeated, or read too early.
func TestCheckCountersFindsLostAndRepeatedCounts(t *testing.T) {
	ask := func(method string, sent, done int64, count uint64) history.Response {
		return history.Response{
			ID: fmt.Sprint(method, sent), Key: "k", Method: method, Status: 200, Count: count,
			Attempts: []history.Attempt{{Sent: sent, Done: done}},
		}
	}
	for _, tc := range []struct {
		name    string
		answers []history.Response
		wrong   string // empty means that nothing is wrong
	}{
		{"good", []history.Response{ask("POST", 1, 2, 1), ask("GET", 3, 4, 1), ask("POST", 5, 9, 3), ask("POST", 6, 8, 2), ask("GET", 7, 8, 1)}, ""},
		{"a request without a response is counted", []history.Response{ask("POST", 1, 2, 1), ask("POST", 3, 4, 3)}, ""},
		{"lost", []history.Response{ask("POST", 1, 2, 2), ask("POST", 3, 4, 1)}, "k: POST3 has count 1, 1ns after POST1 had count 2"},
		{"same count twice", []history.Response{ask("POST", 1, 2, 1), ask("POST", 3, 4, 1)}, "k: POST1 and POST3 both have count 1"},
		{"read from an old owner", []history.Response{ask("POST", 1, 2, 5), ask("GET", 3, 4, 4)}, "k: GET3 has count 4, 1ns after POST1 had count 5"},
	} {
		sc := &scenario{opts: Options{Shards: 8}}
		got := strings.Join(sc.checkCounters(tc.answers, &history.Report{}), "; ")
		if (tc.wrong == "") != (got == "") || !strings.HasPrefix(got, tc.wrong) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.wrong)
		}
	}
}

// findLostWrites finds writes that an old copy has overwritten. It excuses only shards
// that a node has reported.
func TestFindLostWritesFindsOverwrittenWrites(t *testing.T) {
	ask := func(key string, sent, done int64, count uint64) history.Response {
		return history.Response{
			ID: fmt.Sprint(key, sent), Key: key, Method: "POST", Status: 200, Count: count,
			Attempts: []history.Attempt{{Sent: sent, Done: done}},
		}
	}
	keys := load.KeysIn(8, 1, func(int) bool { return true })
	k, other := keys[0], keys[1]
	shard := uint32(load.ShardOf(k, 8))
	overwritten := []history.Response{ask(k, 1, 2, 1), ask(k, 3, 4, 2), ask(other, 5, 6, 7), ask(k, 7, 8, 2)}
	for _, tc := range []struct {
		name    string
		answers []history.Response
		stale   map[uint32]bool
		overlap map[uint32]int
		want    bool
	}{
		{"good", []history.Response{ask(k, 1, 2, 1), ask(k, 3, 9, 3), ask(k, 4, 8, 2), ask(k, 10, 11, 9)}, nil, nil, false},
		{"overwritten", overwritten, nil, nil, true},
		{"overwritten with less", []history.Response{ask(k, 1, 2, 5), ask(k, 3, 4, 1)}, nil, nil, true},
		{"announced", overwritten, map[uint32]bool{shard: true}, nil, false},
		{"announced for another shard", overwritten, map[uint32]bool{shard + 1: true}, nil, true},
		{"two owners", overwritten, nil, map[uint32]int{shard: 1}, false},
	} {
		sc := &scenario{opts: Options{Shards: 8}}
		got := sc.findLostWrites(tc.answers, &history.Report{OverlapsByShard: tc.overlap}, tc.stale)
		if (len(got) > 0) != tc.want {
			t.Errorf("%s: found %q, want some: %v", tc.name, got, tc.want)
		}
	}
}
