package eventlog

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shardway/event"
)

func TestReasonOfALostLeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  LeaderEnd
		want string
	}{
		{"no quorum", LeaderEnd{IsSelf: true}, LostQuorum},
		{"a transfer", LeaderEnd{IsSelf: true, HasSteppedDown: true, HasHigherTerm: true}, LostSteppedDown},
		{"another election", LeaderEnd{IsSelf: true, HasHigherTerm: true}, LostHigherTerm},
		{"a stop with a transfer", LeaderEnd{IsSelf: true, IsStopping: true, HasSteppedDown: true}, LostShutdown},
		{"a stalled disk", LeaderEnd{IsSelf: true, IsDiskStalled: true}, LostDiskStalled},
		{"another node stops", LeaderEnd{IsStopping: true, HasHigherTerm: true}, LostShutdown},
		{"another node is unreachable", LeaderEnd{}, LostUnreachable},
		{"another node is unreachable, and this one campaigned", LeaderEnd{HasHigherTerm: true}, LostUnreachable},
		{"an election against a leader that responds", LeaderEnd{HeardRecently: true}, LostHigherTerm},
	} {
		if got := test.end.Reason(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if !slices.Contains(LostReasons(), test.want) {
			t.Errorf("%q is not in LostReasons", test.want)
		}
	}
}

// The former leader reports a lost quorum only if no higher term follows, which it learns later if its disk is slow. A
// direct change of the leader has both events.
func TestOwnLossWaitsForTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ring := event.NewRing(event.Options{Node: "a"})
		tracker := NewLeaderTracker(ring, func(leader string, _ uint64, hasHigherTerm bool) LeaderEnd {
			return LeaderEnd{IsSelf: leader == "a", HasHigherTerm: hasHigherTerm, HeardRecently: true}
		})
		observe := func(term uint64, leader string) {
			tracker.Observe(func() uint64 { return term }, func() string { return leader })
		}
		observe(2, "a")
		observe(2, "") // stops to lead
		time.Sleep(50 * time.Millisecond)
		observe(3, "") // has written the higher term
		observe(3, "b")
		observe(4, "a")
		observe(4, "")
		time.Sleep(lostQuorumDelay)
		observe(4, "")
		cursor, err := ring.Read("")
		if err != nil {
			t.Fatal(err)
		}
		events, _ := cursor.Next(100)
		var got []string
		for _, e := range events {
			got = append(got, e.Kind.String()+" "+e.Node+" "+e.Reason)
		}
		want := []string{
			"leader-elected a ", "leader-lost a higher-term", "leader-elected b ",
			"leader-lost b higher-term", "leader-elected a ", "leader-lost a quorum-lost",
		}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
