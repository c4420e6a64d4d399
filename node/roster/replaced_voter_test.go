package roster_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/node/gossip"
)

// leaves ends a node in order: its goodbye was heard.
func (c *cluster) leaves(node string) {
	c.hears(node, func(v *ack.MemberView) { v.Silent, v.Heartbeat.Goodbye = true, true })
	c.shows(node, gossip.Left)
}

// A voter that had left stayed one of four for good, when another node had come in its place:
// three healthy nodes that bore no loss.
func TestVoterThatLeftGoesWhenItsReplacementVotes(t *testing.T) {
	keptOf(t, 5, "ABC", func(c *cluster) {
		c.leaves("b")
		c.after(deadAfter / 2) // of three voters none goes
		c.shows("d", gossip.Alive)
		c.hears("d", nil)
		c.after(time.Second, "add d/1", "promote d/1", "remove b/1")
	})
}

// The goodbye was said to an earlier leader: gossip alone tells of it.
func TestVoterThatLeftBeforeTheElectionGoesLater(t *testing.T) {
	keptOf(t, 5, "ABCD", func(c *cluster) {
		c.hears("b", func(v *ack.MemberView) { v.Silent, v.SinceHeartbeat = true, -1 })
		c.shows("b", gossip.Left)
		c.after(9 * time.Second)
		c.after(2*time.Second, "remove b/1")
	})
}

// A voter that is dead goes when another one was promoted since, and not before.
func TestDeadVoterGoesWhenItsReplacementVotes(t *testing.T) {
	const never = 1000 * time.Hour
	keptWith(t, 5, never, "ABCD", func(c *cluster) {
		c.crashes("b")
		c.after(time.Minute)
		c.shows("e", gossip.Alive)
		c.hears("e", nil)
		c.after(time.Second, "add e/1", "promote e/1", "remove b/1")
		c.crashes("c") // nobody has come in its place
		c.after(time.Minute)
	})
	keptWith(t, 5, never, "ABC", func(c *cluster) {
		c.crashes("b")
		c.shows("d", gossip.Alive)
		c.hears("d", nil)
		c.after(5*time.Second, "add d/1", "promote d/1") // b may only restart
		c.after(6*time.Second, "remove b/1")
	})
}

// Nobody goes while a further voter is not heard, leaves, or restarts in place: its vote may be
// needed, and voters go one at a time.
func TestVoterThatLeftStaysWhileTheOthersAreNeeded(t *testing.T) {
	for what, with := range map[string]func(v *ack.MemberView){
		"silent":  silent,
		"leaving": func(v *ack.MemberView) { v.Heartbeat.Leaving = true },
		"deaf":    func(v *ack.MemberView) { v.LinkWorks = false },
	} {
		keptOf(t, 5, "ABCDE", func(c *cluster) {
			c.hears("c", with)
			c.leaves("b")
			c.after(deadAfter / 2)
			if t.Failed() {
				t.Fatal(what)
			}
			c.hears("c", nil)
			c.after(time.Second, "remove b/1")
		})
	}
	keptOf(t, 5, "ABCD", func(c *cluster) { // it restarts in place
		c.hears("b", func(v *ack.MemberView) {
			v.Silent, v.Restarting, v.Heartbeat.Goodbye, v.Heartbeat.Back = true, true, true, time.Minute
		})
		c.after(deadAfter / 2)
	})
}

// A server that was promoted before a voter died makes up for nothing: it was a voter then, too.
func TestDeadVoterStaysThoughAnotherWasPromotedBefore(t *testing.T) {
	const never = 1000 * time.Hour
	keptWith(t, 5, never, "ABCD", func(c *cluster) {
		c.shows("e", gossip.Alive)
		c.hears("e", nil)
		c.after(time.Second, "add e/1", "promote e/1")
		c.after(time.Minute)
		c.crashes("b")
		c.after(time.Minute)
	})
}

// Two facts keep a voter that restarts in place, because each may be known before the other: its
// goodbye says that it comes back, and the log says that it is absent.
func TestVoterThatRestartsInPlaceStays(t *testing.T) {
	for what, with := range map[string]func(v *ack.MemberView){
		"its goodbye says so": func(v *ack.MemberView) {
			v.Silent, v.Heartbeat.Goodbye, v.Heartbeat.Back = true, true, time.Minute
		},
		"the log says so": func(v *ack.MemberView) { v.Silent, v.Heartbeat.Goodbye, v.Restarting = true, true, true },
	} {
		keptOf(t, 5, "ABCD", func(c *cluster) {
			c.hears("b", with)
			c.after(deadAfter / 2)
			if t.Failed() {
				t.Fatal(what)
			}
		})
	}
}

// A leader that stops does not remove itself.
func TestLeaderThatLeavesStaysAVoter(t *testing.T) {
	keptOf(t, 5, "ABCD", func(c *cluster) {
		c.hears("a", func(v *ack.MemberView) { v.Silent, v.Heartbeat.Goodbye = true, true })
		c.after(deadAfter / 2)
	})
}
