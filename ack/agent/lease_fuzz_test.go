package agent_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
)

// No answer that decodes makes a LeaseHolder fail, or gives it a lease longer than MaxLease.
func FuzzHolderAnswered(f *testing.F) {
	for _, a := range []ack.Answer{{FormatVersion: ack.MinFormatVersion}, {FormatVersion: ack.MinFormatVersion, Term: 1, Number: 1, Boot: 1, HeartbeatNumber: 1, ServeFor: 500 * time.Millisecond, AbortAfter: time.Second, LeaseDuration: 500 * time.Millisecond}} {
		b, err := a.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a ack.Answer
		if a.UnmarshalBinary(b) != nil {
			return
		}
		h := agent.NewLeaseHolder(1, 0)
		h.NextHeartbeat(1)
		h.HandleAnswer(2, a.Term, a)
		h.Tick(3)
		if left := h.Remaining(3); left > ack.MaxLease {
			t.Errorf("a lease of %v", left)
		}
	})
}
