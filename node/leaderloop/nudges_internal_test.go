package leaderloop

import (
	"slices"
	"testing"
	"time"

	"shardway/shardmap"
)

// A node that lacks a map is notified with its first heartbeat, and again at increasing intervals while it lacks the map, because messages
// may be lost. Another map, or another process of the node, is notified immediately, the latter even if it lacks no map.
func TestLaggingNodeIsNotifiedAgain(t *testing.T) {
	n, began := nudges{}, time.Now()
	var told []time.Duration
	first := missingMap{nonce: 1, epoch: 5}
	for at := time.Duration(0); at < time.Hour; at += 100 * time.Millisecond {
		if n.shouldNudge("a", first, true, began.Add(at)) {
			told = append(told, at)
		}
	}
	if want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond, 7500 * time.Millisecond, 15500 * time.Millisecond}; !slices.Equal(told, want) {
		t.Errorf("told at %v, want %v", told, want)
	}
	now := began.Add(time.Hour)
	for _, c := range []struct {
		node  string
		lag   missingMap
		lags  bool
		after time.Duration
		want  bool
	}{
		{"b", first, false, 0, true}, // its first heartbeat
		{"b", first, false, time.Minute, false},
		{"b", first, true, time.Minute, true},
		{"a", missingMap{nonce: 1, epoch: 6}, false, 0, false},
		{"a", missingMap{nonce: 1, epoch: 6}, true, 0, true},
		{"a", missingMap{nonce: 1, epoch: 6}, true, nudgeRetryPause - 1, false},
		{"a", missingMap{nonce: 1, epoch: 6}, true, nudgeRetryPause, true},
		{"a", missingMap{nonce: 2, epoch: 6}, false, nudgeRetryPause, true}, // another process
		{"a", missingMap{nonce: 2, epoch: 6}, false, time.Hour, false},
	} {
		if got := n.shouldNudge(shardmap.NodeID(c.node), c.lag, c.lags, now.Add(c.after)); got != c.want {
			t.Errorf("%s, %+v, lags %v, %v later: told %v, want %v", c.node, c.lag, c.lags, c.after, got, c.want)
		}
	}
}
