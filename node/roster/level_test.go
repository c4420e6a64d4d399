package roster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/node/gossip"
	"shardway/node/roster"
)

// Rolling back is possible for as long as nothing is written that the former version
// does not know. That is for LevelAfter, from the last node that was upgraded on.
func TestLevelIsRaisedOnceAllHaveKnownItForLong(t *testing.T) {
	kept(t, "ABCd", func(c *cluster) {
		c.restarts(2, "a", "b", "c")
		c.after(3 * levelAfter)
		c.restarts(2, "d")
		c.after(levelAfter - time.Second)
		c.restarts(1, "d") // back
		c.after(3 * levelAfter)
		c.restarts(2, "d")
		c.after(levelAfter - time.Second)
		c.after(3*time.Second, "level 2")
	})
}

// restarts has nodes go on as other processes, whose programs know a level.
func (c *cluster) restarts(knows ack.Level, nodes ...string) {
	for _, node := range nodes {
		c.mu.Lock()
		nonce := c.heard[node].Heartbeat.Nonce + 1
		c.knows[node] = knows
		c.mu.Unlock()
		c.hears(node, func(v *ack.MemberView) { v.Heartbeat.Nonce = nonce })
	}
}

// Nobody knows what the program of a node is that does not answer.
func TestSilentServerHoldsUpTheLevelUntilItIsRemoved(t *testing.T) {
	kept(t, "ABCd", func(c *cluster) {
		c.restarts(2, "a", "b", "c", "d")
		c.after(levelAfter / 2)
		c.hears("d", silent)
		c.after(levelAfter)
		c.shows("d", gossip.Failed)
		if err := c.Remove("d/1"); err != nil {
			t.Error(err)
		}
		c.after(time.Second, "remove d/1", "level 2")
	})
}

func TestLevelIsRaisedAtOnceWhenAskedFor(t *testing.T) {
	kept(t, "ABC", func(c *cluster) {
		var blocked *roster.LevelError
		if err := c.asks(); !errors.As(err, &blocked) || !strings.Contains(err.Error(), "no node knows a higher one") {
			t.Errorf("with nothing to raise: %v", err)
		}
		c.restarts(2, "a", "b")
		c.after(2 * time.Second)
		if err := c.asks(); !errors.As(err, &blocked) || !strings.Contains(err.Error(), "c, which knows level 1: run the version of the other nodes there") {
			t.Errorf("with c below: %v", err)
		}
		c.hears("c", silent)
		if err := c.asks(); err == nil || !strings.Contains(err.Error(), "c, which is not heard: start it, or take it out (shardway remove c)") {
			t.Errorf("with c silent: %v", err)
		}
		c.restarts(2, "c")
		c.after(2 * time.Second)
		if v := c.keeper.Level(); v == nil || v.Next != 2 || v.Wait < levelAfter-3*time.Second || len(v.Blocked()) != 0 {
			t.Errorf("before it is raised: %+v", v)
		}
		if err := c.asks(); err != nil {
			t.Errorf("with all at level 2: %v", err)
		}
		c.after(0, "level 2")
		if v := c.keeper.Level(); v == nil || v.InForce != 2 || v.Next != 2 {
			t.Errorf("after it was raised: %+v", v)
		}
	})
}

// It would stop at the first entry, and be a server that is never there.
func TestServerBelowTheLevelInForceIsNotAdded(t *testing.T) {
	kept(t, "ABC", func(c *cluster) {
		c.mu.Lock()
		c.level = 2
		c.mu.Unlock()
		c.restarts(2, "a", "b", "c")
		c.shows("d", gossip.Alive)
		c.hears("d", nil)
		c.after(time.Minute)
		c.restarts(2, "d")
		c.after(2*time.Second, "add d/1")
	})
}

// asks has the level raised.
func (c *cluster) asks() error {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	return c.keeper.Raise(ctx, nil)
}
