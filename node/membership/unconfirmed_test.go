package membership_test

import (
	"errors"
	"testing"
	"time"

	"shardway/node/gossip"
)

// TestNodeWithoutResponseIsUnconfirmed verifies that a leader reports why it does not add a node.
func TestNodeWithoutResponseIsUnconfirmed(t *testing.T) {
	t.Parallel()
	runReconciler(t, "ABC", func(c *cluster) {
		c.after(time.Second)
		if all := c.keeper.Unconfirmed(); len(all) > 0 {
			t.Errorf("%v are listed, and all nodes are added", all)
		}
		c.deaf = "d"
		began := time.Now()
		c.shows("d", gossip.Alive)
		c.after(10 * time.Second)
		all := c.keeper.Unconfirmed()
		if len(all) != 1 || all[0].Node != "d" || !errors.Is(all[0].Err, errDown) || all[0].Since.Sub(began) > time.Second {
			t.Errorf("%v are listed, want d", all)
		}
		c.shows("d", gossip.Failed)
		c.after(10 * time.Second)
		if all := c.keeper.Unconfirmed(); len(all) > 0 {
			t.Errorf("%v are listed, and gossip does not show d", all)
		}
		c.shows("d", gossip.Alive)
		c.after(3 * time.Second)
		if all := c.keeper.Unconfirmed(); len(all) != 1 || time.Since(all[0].Since) > 4*time.Second {
			t.Errorf("%v are listed, want d for less than 4 s", all)
		}
	})
}

func TestNodeThatRespondsLateIsAdded(t *testing.T) {
	t.Parallel()
	runReconciler(t, "ABC", func(c *cluster) {
		c.disks["d"] = "2"
		c.mu.Lock()
		c.members = append(c.members, gossip.Member{ID: "d", Node: true, Status: gossip.Alive, Tags: gossip.Tags{Node: "d", Disk: "1"}})
		c.mu.Unlock()
		c.after(5 * time.Second)
		if all := c.keeper.Unconfirmed(); len(all) != 1 || all[0].Err == nil {
			t.Errorf("%v are listed, want d, where another disk is", all)
		}
		c.mu.Lock()
		c.disks["d"], c.knows["d"] = "1", 1
		c.mu.Unlock()
		c.after(5*time.Second, "add d/1")
		if all := c.keeper.Unconfirmed(); len(all) > 0 {
			t.Errorf("%v are listed, and all nodes are added", all)
		}
	})
}
