package gossip

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/serf/serf"

	"shardway/internal/raceflag"
)

// A removed node is forgotten immediately, even if it must be kept otherwise. A node that must be kept is never forgotten. Any other node
// is forgotten as by Serf. The timeout is negative, because Serf waits until more time than that has passed.
func TestRetentionSetsReconnectTimeout(t *testing.T) {
	defer raceflag.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		m := &retention{retainForever: func(id string) bool { return id == "server" || id == "removed" }}
		m.markForgotten("removed")
		for id, want := range map[string]time.Duration{"removed": -1, "server": forever, "other": time.Hour} {
			if got := m.ReconnectTimeout(&serf.Member{Name: id}, time.Hour); got != want {
				t.Errorf("%s is known for %v, want %v", id, got, want)
			}
		}
		if got := (&retention{}).ReconnectTimeout(&serf.Member{Name: "other"}, time.Hour); got != time.Hour {
			t.Errorf("where nobody is to be kept one is known for %v, want an hour", got)
		}
		time.Sleep(forgetGrace)
		if got := m.ReconnectTimeout(&serf.Member{Name: "removed"}, time.Hour); got != forever {
			t.Errorf("a minute later it is known for %v, want %v", got, forever)
		}
	})
}

// Only a member that left or failed is hidden, and only for some time after it was marked as forgotten. It is shown again when a new node
// joins under its name.
func TestRetentionHidesForgottenNodes(t *testing.T) {
	defer raceflag.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		m := &retention{}
		hidden := func(id string) (all []serf.MemberStatus) {
			for _, s := range []serf.MemberStatus{serf.StatusNone, serf.StatusAlive, serf.StatusLeaving, serf.StatusLeft, serf.StatusFailed} {
				if m.isExpired(serf.Member{Name: id, Status: s}) {
					all = append(all, s)
				}
			}
			return all
		}
		event := func(kind serf.EventType, id string) {
			m.onEvent(serf.MemberEvent{Type: kind, Members: []serf.Member{{Name: id}}})
		}
		m.markForgotten("a")
		time.Sleep(forgetGrace - time.Second)
		m.markForgotten("b") // the entry of a is unchanged
		if a, b, c := hidden("a"), hidden("b"), hidden("c"); len(a) != 2 || a[0] != serf.StatusLeft || a[1] != serf.StatusFailed || len(b) != 2 || len(c) != 0 {
			t.Errorf("hidden are a as %v, b as %v, c as %v", a, b, c)
		}
		time.Sleep(time.Second)
		if a, b := hidden("a"), hidden("b"); len(a) != 0 || len(b) != 2 {
			t.Errorf("a minute after the first one a is hidden as %v, b as %v", a, b)
		}
		for _, kind := range []serf.EventType{serf.EventMemberFailed, serf.EventMemberLeave, serf.EventMemberUpdate, serf.EventMemberReap} {
			event(kind, "b")
		}
		m.onEvent(serf.UserEvent{Name: "b"})
		event(serf.EventMemberJoin, "c")
		if b := hidden("b"); len(b) != 2 {
			t.Errorf("it is gone, and is hidden as %v", b)
		}
		event(serf.EventMemberJoin, "b")
		if b := hidden("b"); len(b) != 0 {
			t.Errorf("another one came, and is hidden as %v", b)
		}
		m.markForgotten("c")
		time.Sleep(forgetGrace)
		m.markForgotten("d")
		if _, ok := m.forgetUntil["d"]; !ok || len(m.forgetUntil) != 1 {
			t.Errorf("remembered to be forgotten: %v, want only d", m.forgetUntil)
		}
	})
}
