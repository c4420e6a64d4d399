//go:build linux

package faults_test

import (
	"maps"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/history"
)

func TestUnansweredLastsUntilTheKeyIsServed(t *testing.T) {
	request := func(key string, sent, done int64, status int) history.Response {
		return history.Response{Key: key, Status: status, Attempts: []history.Attempt{{Sent: sent, Done: sent}, {Sent: done, Done: done}}}
	}
	for _, c := range []struct {
		name    string
		answers []history.Response
		want    map[string]time.Duration
	}{
		{"the slowest of two", []history.Response{request("k", 0, 5, 200), request("k", 10, 13, 200)}, map[string]time.Duration{"k": 5}},
		{"a failed one counts until a later one is served", []history.Response{request("k", 0, 5, 502), request("k", 10, 13, 200)}, map[string]time.Duration{"k": 13}},
		{"one sent earlier serves nothing", []history.Response{request("k", 0, 12, 200), request("k", 5, 10, 502), request("k", 20, 21, 200)}, map[string]time.Duration{"k": 16}},
		{"a hung one only until a later one is served", []history.Response{request("k", 0, 100, 200), request("k", 10, 13, 200)}, map[string]time.Duration{"k": 13}},
		{"never served again", []history.Response{request("k", 0, 5, 503), request("l", 10, 40, 200)}, map[string]time.Duration{"k": 40, "l": 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := faults.Unanswered(c.answers)
			if !maps.Equal(got, c.want) {
				t.Errorf("Unanswered() = %v, want %v", got, c.want)
			}
		})
	}
}

func TestLongestIncludesOnlySelectedKeys(t *testing.T) {
	times := map[string]time.Duration{"a": 1, "b": 3, "c": 2}
	if got := faults.Longest(times, func(key string) bool { return key != "b" }); got != 2 {
		t.Errorf("Longest() = %d, want 2", got)
	}
}

func TestSampleReadsMedianAndTail(t *testing.T) {
	var s faults.Sample
	for i := range 20 {
		s.Add(time.Duration(20-i) * 10 * time.Millisecond)
	}
	if got, want := s.String(), "110 190 200"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if got := faults.Sample(nil).Quantile(0.5); got != 0 {
		t.Errorf("At(0.5) of nothing = %v, want 0", got)
	}
}
