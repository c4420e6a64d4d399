package writelimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/disk"
	"shardway/node/persist"
	"shardway/node/router"
)

// newTestLimit returns the limit of a node in boot 2, with a lease of a minute, whose data directory contains
// earlier, and the timing of its cluster. store writes to that directory.
func newTestLimit(t *testing.T, c clock.Clock, earlier disk.AppAllowance, store func(disk.AppAllowance) error) (*Limit, *ack.Timing) {
	t.Helper()
	timing := ack.DefaultTiming()
	r := router.New("a", 4, c, nil)
	r.SetLease(c.Precise() + time.Minute)
	l := New(Options{Self: "a", Router: r, Timing: func() ack.Timing { return timing }, InitialTiming: timing, Clock: c, Log: zerolog.Nop()})
	l.boot, l.earlier, l.granted = 2, earlier, persist.New("app allowance", earlier, store, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return l, &timing
}

// An app is never sent a time that the data directory does not contain, also after the cluster's times were raised.
func TestAppReceivesNoAllowanceBeyondTheDisk(t *testing.T) {
	for name, ask := range map[string]func(l *Limit) time.Duration{
		"alive": func(l *Limit) time.Duration { left, _ := l.timeForHook(); return left },
		"owned": func(l *Limit) time.Duration { return l.ForOwned(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stored disk.AppAllowance
				var hung chan struct{}
				l, timing := newTestLimit(t, clock.Virtual(), disk.AppAllowance{Boot: 1, Alive: time.Hour, Owned: time.Hour}, func(a disk.AppAllowance) error {
					if hung != nil {
						<-hung
					}
					stored = a
					return nil
				})
				look := func(want time.Duration) {
					t.Helper()
					told := ask(l)
					if told != want || told > max(stored.Alive, stored.Owned) {
						t.Errorf("told %v, want %v; stored %+v", told, want, stored)
					}
					synctest.Wait()
				}
				ask(l)
				synctest.Wait()
				look(500 * time.Millisecond)
				if stored.Boot != 2 {
					t.Errorf("stored %+v, want boot 2", stored)
				}
				hung = make(chan struct{})
				timing.Lease, timing.DeadAfter = 3*time.Second, 10*time.Second
				look(500 * time.Millisecond)
				close(hung)
				synctest.Wait()
				look(3 * time.Second)
				*timing = ack.DefaultTiming()
				look(500 * time.Millisecond)
				if max(stored.Alive, stored.Owned) != 3*time.Second {
					t.Errorf("stored %+v, want the longest time", stored)
				}
			})
		})
	}
}

// A wait for an allowance is not repeated by the process after the next.
func TestAllowanceIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored disk.AppAllowance
		l, _ := newTestLimit(t, clock.Virtual(), disk.AppAllowance{Boot: 1, Owned: 500 * time.Millisecond}, func(a disk.AppAllowance) error { stored = a; return nil })
		l.AwaitEarlier(t.Context())
		synctest.Wait()
		if stored != (disk.AppAllowance{Boot: 2}) {
			t.Errorf("stored %+v, want nothing allowed by boot 2", stored)
		}
	})
}
