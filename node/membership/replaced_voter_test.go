package membership_test

import (
	"testing"
	"time"

	"shardway/ack/leader"
	"shardway/node/gossip"
)

// leavesB stops node b in an orderly way: the leader has received its goodbye.
func (c *cluster) leavesB() {
	const node = "b"
	c.addHeartbeat(node, func(v *leader.MemberView) { v.Silent, v.Heartbeat.Goodbye = true, true })
	c.shows(node, gossip.Left)
}

// A left voter must not remain one of four voters after its replacement was promoted: the three healthy
// voters would tolerate no failure.
func TestLeftVoterIsRemovedOnceItsReplacementVotes(t *testing.T) {
	runReconcilerWithVoters(t, 5, "ABC", func(c *cluster) {
		c.leavesB()
		c.after(deadAfter / 2) // none of three voters is removed
		c.shows("d", gossip.Alive)
		c.addHeartbeat("d", nil)
		c.after(time.Second, "add d/1", "promote d/1", "remove b/1")
	})
}

// With --max-voters 3, a voter that has left must not keep the place that a spare server could take: the
// two remaining voters would tolerate no failure.
func TestSpareServerReplacesALeftVoterOfThree(t *testing.T) {
	runReconcilerWithVoters(t, 3, "ABCd", func(c *cluster) {
		c.after(time.Second)
		c.leavesB()
		c.after(time.Second, "promote d/1", "remove b/1")
	})
	runReconcilerWithVoters(t, 3, "ABCd", func(c *cluster) { // an earlier leader has received the goodbye
		c.addHeartbeat("b", func(v *leader.MemberView) { v.Silent, v.SinceHeartbeat = true, -1 })
		c.shows("b", gossip.Left)
		c.after(12*time.Second, "promote d/1", "remove b/1")
	})
	runReconcilerWithVoters(t, 3, "ABCd", func(c *cluster) { // it may return
		c.addHeartbeat("b", silent)
		c.after(deadAfter / 2)
	})
	runReconcilerWithVoters(t, 3, "ABCd", func(c *cluster) { // all remaining voters must be heard
		c.addHeartbeat("c", silent)
		c.leavesB()
		c.after(deadAfter / 2)
	})
}

// An earlier leader has received the goodbye: only gossip shows it.
func TestVoterThatLeftBeforeTheElectionIsRemovedLater(t *testing.T) {
	runReconcilerWithVoters(t, 5, "ABCD", func(c *cluster) {
		c.addHeartbeat("b", func(v *leader.MemberView) { v.Silent, v.SinceHeartbeat = true, -1 })
		c.shows("b", gossip.Left)
		c.after(9 * time.Second)
		c.after(2*time.Second, "remove b/1")
	})
}

// A dead voter is removed once another server was promoted after its death.
func TestDeadVoterIsRemovedOnceItsReplacementVotes(t *testing.T) {
	const never = 1000 * time.Hour
	runReconcilerWith(t, 5, never, "ABCD", func(c *cluster) {
		c.crashes("b")
		c.after(time.Minute)
		c.shows("e", gossip.Alive)
		c.addHeartbeat("e", nil)
		c.after(time.Second, "add e/1", "promote e/1", "remove b/1")
		c.crashes("c") // it has no replacement yet
		c.after(time.Minute)
	})
	runReconcilerWith(t, 5, never, "ABC", func(c *cluster) {
		c.crashes("b")
		c.shows("d", gossip.Alive)
		c.addHeartbeat("d", nil)
		c.after(5*time.Second, "add d/1", "promote d/1") // b may be restarting
		c.after(6*time.Second, "remove b/1")
	})
}

// No voter is removed while another voter sends no heartbeats, leaves or restarts in place: its vote may be needed, and voters are removed
// one at a time.
func TestLeftVoterStaysWhileOtherVotersAreUnheard(t *testing.T) {
	for what, with := range map[string]func(v *leader.MemberView){
		"silent":  silent,
		"leaving": func(v *leader.MemberView) { v.Heartbeat.Leaving = true },
		"deaf":    func(v *leader.MemberView) { v.LinkWorks = false },
	} {
		runReconcilerWithVoters(t, 5, "ABCDE", func(c *cluster) {
			c.addHeartbeat("c", with)
			c.leavesB()
			c.after(deadAfter / 2)
			if t.Failed() {
				t.Fatal(what)
			}
			c.addHeartbeat("c", nil)
			c.after(time.Second, "remove b/1")
		})
	}
	runReconcilerWithVoters(t, 5, "ABCD", func(c *cluster) { // restart in place
		c.addHeartbeat("b", func(v *leader.MemberView) {
			v.Silent, v.Restarting, v.Heartbeat.Goodbye, v.Heartbeat.RestartWithin = true, true, true, time.Minute
		})
		c.after(deadAfter / 2)
	})
}

// A server that was promoted before a voter died does not replace it.
func TestEarlierPromotionDoesNotReplaceADeadVoter(t *testing.T) {
	const never = 1000 * time.Hour
	runReconcilerWith(t, 5, never, "ABCD", func(c *cluster) {
		c.shows("e", gossip.Alive)
		c.addHeartbeat("e", nil)
		c.after(time.Second, "add e/1", "promote e/1")
		c.after(time.Minute)
		c.crashes("b")
		c.after(time.Minute)
	})
}

// A voter that restarts in place is kept if its goodbye announces its return, or if the log contains its
// planned downtime. Either can arrive first.
func TestVoterThatRestartsInPlaceStays(t *testing.T) {
	for what, with := range map[string]func(v *leader.MemberView){
		"its goodbye says so": func(v *leader.MemberView) {
			v.Silent, v.Heartbeat.Goodbye, v.Heartbeat.RestartWithin = true, true, time.Minute
		},
		"the log says so": func(v *leader.MemberView) { v.Silent, v.Heartbeat.Goodbye, v.Restarting = true, true, true },
	} {
		runReconcilerWithVoters(t, 5, "ABCD", func(c *cluster) {
			c.addHeartbeat("b", with)
			c.after(deadAfter / 2)
			if t.Failed() {
				t.Fatal(what)
			}
		})
	}
}

// A leader that stops does not remove itself.
func TestLeavingLeaderIsNotRemoved(t *testing.T) {
	runReconcilerWithVoters(t, 5, "ABCD", func(c *cluster) {
		c.addHeartbeat("a", func(v *leader.MemberView) { v.Silent, v.Heartbeat.Goodbye = true, true })
		c.after(deadAfter / 2)
	})
}
