package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/disk"
	"shardway/node/router"
)

// allowing returns a node in boot 2, with a lease of a minute, whose data directory contains
// earlier. store writes to that directory.
func allowing(t *testing.T, c clock.Clock, earlier disk.AppAllowance, store func(disk.AppAllowance) error) *Node {
	t.Helper()
	n := &Node{log: zerolog.Nop(), router: router.New("a", 4, c, nil), fsm: newFSM(func(error) {})}
	n.view = cluster.NewView("a", "a/d", ack.DefaultTiming(), n.fsm.state.Load)
	n.o.Clock, n.o.Timing = c, ack.DefaultTiming()
	n.router.SetLease(c.Precise() + time.Minute)
	n.allowance = &allowance{boot: 2, earlier: earlier, value: newPersisted("app allowance", earlier, store, zerolog.Nop())}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.allowance.value.run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return n
}

// An app is never told a time that the data directory does not contain, also not after the
// cluster's times were raised.
func TestAppReceivesNoAllowanceBeyondTheDisk(t *testing.T) {
	for name, ask := range map[string]func(n *Node) time.Duration{
		"alive": func(n *Node) time.Duration { left, _ := n.mayWriteAlive(); return left },
		"owned": func(n *Node) time.Duration { return n.mayWriteOwned(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stored disk.AppAllowance
				var hung chan struct{}
				n := allowing(t, clock.Virtual(), disk.AppAllowance{Boot: 1, Alive: time.Hour, Owned: time.Hour}, func(a disk.AppAllowance) error {
					if hung != nil {
						<-hung
					}
					stored = a
					return nil
				})
				look := func(want time.Duration) {
					t.Helper()
					told := ask(n)
					if told != want || told > max(stored.Alive, stored.Owned) {
						t.Errorf("told %v, want %v; stored %+v", told, want, stored)
					}
					synctest.Wait()
				}
				ask(n)
				synctest.Wait()
				look(500 * time.Millisecond)
				if stored.Boot != 2 {
					t.Errorf("stored %+v, want boot 2", stored)
				}
				hung = make(chan struct{})
				n.view.InitialTiming.Lease, n.view.InitialTiming.DeadAfter = 3*time.Second, 10*time.Second
				look(500 * time.Millisecond)
				close(hung)
				synctest.Wait()
				look(3 * time.Second)
				n.view.InitialTiming = ack.DefaultTiming()
				look(500 * time.Millisecond)
				if max(stored.Alive, stored.Owned) != 3*time.Second {
					t.Errorf("stored %+v, want the longest time", stored)
				}
			})
		})
	}
}

// What was waited for once is not waited for by the process after the next.
func TestAllowanceIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored disk.AppAllowance
		n := allowing(t, clock.Virtual(), disk.AppAllowance{Boot: 1, Owned: 500 * time.Millisecond}, func(a disk.AppAllowance) error { stored = a; return nil })
		n.awaitApp(t.Context())
		synctest.Wait()
		if stored != (disk.AppAllowance{Boot: 2}) {
			t.Errorf("stored %+v, want nothing allowed by boot 2", stored)
		}
	})
}
