package ack

import (
	"testing"
	"time"
)

// An agent at rest looks seldom, and so often that a look may come late by a part of the lease
// that bears on a busy machine: it is taken for a pause from a quarter on.
func TestHowLongAnAgentRests(t *testing.T) {
	const ms = time.Millisecond
	for lease, want := range map[time.Duration]time.Duration{
		100 * ms: 10 * ms, 150 * ms: 17500 * time.Microsecond, 250 * ms: 42500 * time.Microsecond, 500 * ms: 100 * ms, time.Second: 200 * ms,
	} {
		a := &Agent{o: AgentOptions{Pace: DefaultPace()}, holder: &Holder{whole: lease}}
		if got := a.rest(time.Hour); got != want {
			t.Errorf("with a lease of %v it rests for %v, want %v", lease, got, want)
		}
	}
}
