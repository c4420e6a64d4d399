package membership_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/node/gossip"
	"shardway/node/membership"
)

// A downgrade is possible as long as nothing is written that the previous version does not support.
// This lasts for FinalizeAfter after the upgrade of the last node.
func TestLevelIsRaisedAfterAllHaveSupportedItForFinalizeAfter(t *testing.T) {
	runReconciler(t, "ABCd", func(c *cluster) {
		c.restarts(2, "a", "b", "c")
		c.after(3 * finalizeAfter)
		c.restarts(2, "d")
		c.after(finalizeAfter - time.Second)
		c.restarts(1, "d") // downgrade
		c.after(3 * finalizeAfter)
		c.restarts(2, "d")
		c.after(finalizeAfter - time.Second)
		c.after(3*time.Second, "format version 2")
	})
}

// restarts restarts nodes with programs that support this level.
func (c *cluster) restarts(knows ack.FormatVersion, nodes ...string) {
	for _, node := range nodes {
		c.mu.Lock()
		nonce := c.heard[node].Heartbeat.Nonce + 1
		c.knows[node] = knows
		c.mu.Unlock()
		c.addHeartbeat(node, func(v *leader.MemberView) { v.Heartbeat.Nonce = nonce })
	}
}

// The level that a node supports is unknown if the node does not respond.
func TestSilentServerBlocksTheLevelUntilItIsRemoved(t *testing.T) {
	runReconciler(t, "ABCd", func(c *cluster) {
		c.restarts(2, "a", "b", "c", "d")
		c.after(finalizeAfter / 2)
		c.addHeartbeat("d", silent)
		c.after(finalizeAfter)
		c.shows("d", gossip.Failed)
		if err := c.Remove("d/1"); err != nil {
			t.Error(err)
		}
		c.after(time.Second, "remove d/1", "format version 2")
	})
}

func TestRaiseDoesNotWaitForFinalizeAfter(t *testing.T) {
	runReconciler(t, "ABC", func(c *cluster) {
		var blocked *membership.LevelError
		if err := c.asks(); !errors.As(err, &blocked) || !strings.Contains(err.Error(), "no node supports a higher one") {
			t.Errorf("with nothing to raise: %v", err)
		}
		c.restarts(2, "a", "b")
		c.after(2 * time.Second)
		if err := c.asks(); !errors.As(err, &blocked) || !strings.Contains(err.Error(), "c, which supports format version 1: run the version of the other nodes there") {
			t.Errorf("with c below: %v", err)
		}
		c.addHeartbeat("c", silent)
		if err := c.asks(); err == nil || !strings.Contains(err.Error(), "c, which sends no heartbeats: start it, or remove it (shardway remove c)") {
			t.Errorf("with c silent: %v", err)
		}
		c.restarts(2, "c")
		c.after(2 * time.Second)
		if v := c.keeper.Level(); v == nil || v.Next != 2 || v.RemainingWait < finalizeAfter-3*time.Second || len(v.BlockingServers()) != 0 {
			t.Errorf("before it is raised: %+v", v)
		}
		if err := c.asks(); err != nil {
			t.Errorf("with all at format version 2: %v", err)
		}
		c.after(0, "format version 2")
		if v := c.keeper.Level(); v == nil || v.InForce != 2 || v.Next != 2 {
			t.Errorf("after it was raised: %+v", v)
		}
	})
}

// Such a server would stop at the first entry of the new level.
func TestServerBelowTheCurrentLevelIsNotAdded(t *testing.T) {
	runReconciler(t, "ABC", func(c *cluster) {
		c.mu.Lock()
		c.level = 2
		c.mu.Unlock()
		c.restarts(2, "a", "b", "c")
		c.shows("d", gossip.Alive)
		c.addHeartbeat("d", nil)
		c.after(time.Minute)
		c.restarts(2, "d")
		c.after(2*time.Second, "add d/1")
	})
}

// asks requests the next level.
func (c *cluster) asks() error {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	return c.keeper.RaiseLevel(ctx, nil)
}
