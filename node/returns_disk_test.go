package node_test

import (
	"testing"
	"time"

	"shardway/shardmap"
)

// A node whose disk stalls when its app reports another instance keeps its lease and its health checks: neither waits for a write to the
// disk.
func TestDiskThatHangsForTheAppInstanceCostsNoLease(t *testing.T) {
	inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
		hung, wrote := make(chan struct{}), make(chan struct{}, 16)
		victim.mem.SetFileFault(func(name string) error {
			if name == "app.json" {
				wrote <- struct{}{}
				<-hung
			}
			return nil
		})
		moment := w.moment
		w.moment = func() {
			moment()
			if !victim.node.Leased() {
				t.Fatal("the lease ended")
			}
		}
		c.instance.set(victim.name, "another one")
		w.until("the disk hangs", func() bool { return len(wrote) > 0 })
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			w.moment()
		}
		w.moment = moment
		was := w.owned(victim.name)
		c.down.set(victim.name, true)
		w.within(10*time.Second, "checks go on", func() bool { return w.committed().ShardCount(shardmap.NodeID(victim.name)) == 0 })
		c.down.set(victim.name, false)
		w.until("it owns shards again", func() bool { return w.committed().ShardCount(shardmap.NodeID(victim.name)) == len(was) })
		victim.mem.SetFileFault(nil)
		close(hung)
	})
}

// The instance is stored once the disk works again, for the next process of the node.
func TestAppInstanceIsStoredOnceTheDiskGoesOn(t *testing.T) {
	inCachingWorld(t, func(w *world, c *cachingApps, victim *process) {
		hung, wrote := make(chan struct{}), make(chan struct{}, 16)
		victim.mem.SetFileFault(func(name string) error {
			if name == "app.json" {
				wrote <- struct{}{}
				<-hung
			}
			return nil
		})
		c.instance.set(victim.name, "another one")
		w.until("the disk hangs", func() bool { return len(wrote) > 0 })
		c.instance.set(victim.name, "the last one")
		time.Sleep(5 * time.Second)
		close(hung)
		victim.mem.SetFileFault(nil)
		time.Sleep(time.Second)
		victim.terminate()
		d, err := victim.mem.Open(victim.name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		if name, err := d.AppInstance(); err != nil || name != "the last one" {
			t.Errorf("stored %q, %v, want the last instance", name, err)
		}
	})
}
