package leader_test

import (
	"testing"

	"shardway/ack"
	"shardway/ack/leader"
)

// A leader accepts any heartbeat that decodes without a panic.
func FuzzHeartbeatReceived(f *testing.F) {
	for _, h := range []ack.Heartbeat{
		{Node: "a", Server: "a/d1", Boot: 1, Nonce: 7, Number: 1, Term: 5, Weight: 1},
		{Node: "b", Server: "b/d1", Boot: 9, Number: 9, Echo: ack.Echo{Term: 3, Number: 4}, Term: 5, Applied: 6, Acked: 7, Weight: 1, Leaving: true, Goodbye: true},
	} {
		b, err := h.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		var h ack.Heartbeat
		if h.UnmarshalBinary(b) != nil {
			return
		}
		l := leader.New(leader.Options{Server: "z/d", Term: 5, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), State: ack.NewState()}, 0)
		l.Step(1, leader.TermRead{After: 1, Term: 5})
		l.Step(2, leader.HeartbeatReceived{Heartbeat: h, From: "x"})
		l.Step(3, leader.Tick{})
	})
}
