package node

import (
	"testing"
	"time"
)

// Whoever lacks a map is told of it as it is heard, and seldomer and seldomer for as long as it
// does: what was sent may have been lost. Another map, or another process, is told of at once.
func TestWhoLagsIsToldAgain(t *testing.T) {
	n, began := nudges{}, time.Now()
	var told []time.Duration
	first := lag{nonce: 1, epoch: 5}
	for at := time.Duration(0); at < 25*time.Second; at += 100 * time.Millisecond {
		if n.due("a", first, began.Add(at)) {
			told = append(told, at)
		}
	}
	want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond, 7500 * time.Millisecond, 15500 * time.Millisecond, 23500 * time.Millisecond}
	if len(told) != len(want) {
		t.Fatalf("told at %v, want %v", told, want)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Errorf("told at %v, want %v", told, want)
		}
	}
	now := began.Add(25 * time.Second)
	if !n.due("b", first, now) {
		t.Error("another node that lags is not told")
	}
	for _, other := range []lag{{nonce: 1, epoch: 6}, {nonce: 2, epoch: 6}} {
		if !n.due("a", other, now) || n.due("a", other, now.Add(nudgeAgain-1)) || !n.due("a", other, now.Add(nudgeAgain)) {
			t.Errorf("%+v: not told at once, and again after %v", other, nudgeAgain)
		}
	}
}
