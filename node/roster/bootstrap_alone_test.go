package roster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/roster"
)

// loner is a fresh node that was told of itself only.
type loner struct {
	promised string
	members  []gossip.Member
	log      atomic.Bool
	doubt    atomic.Pointer[error]
}

func (l *loner) Cluster() (id string, shards int)  { return "", 8 }
func (l *loner) Promised() (to string, err error)  { return l.promised, nil }
func (l *loner) Promise(to string) error           { l.promised = to; return nil }
func (l *loner) Fresh() bool                       { return !l.log.Load() }
func (l *loner) Configuration() []consensus.Server { return nil }
func (l *loner) Bootstrap() error                  { l.log.Store(true); return nil }
func (l *loner) Campaign() error                   { return nil }
func (l *loner) Members() []gossip.Member          { return l.members }

func (l *loner) only(context.Context) error {
	if p := l.doubt.Load(); p != nil {
		return *p
	}
	return nil
}

// run runs the Founder of l for a minute, and then calls then.
func (l *loner) run(t *testing.T, then func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b := roster.NewBootstrapper(roster.BootstrapperOptions{
			Self: "a", BootstrapExpect: 1, Joins: true, JoinsOnlyItself: l.only, Dir: l, Raft: l, Gossip: l,
			Fail: func(err error) { t.Error(err) }, Log: zerolog.Nop(),
		})
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		time.Sleep(time.Minute)
		then()
		stop()
		<-done
	})
}

func TestNodeThatJoinsOnlyItselfFoundsACluster(t *testing.T) {
	t.Parallel()
	l := &loner{promised: "a", members: []gossip.Member{{ID: "a", Node: true}, {ID: "b", Node: true}}}
	l.run(t, func() {
		if !l.log.Load() {
			t.Error("no cluster founded")
		}
	})
}

func TestNodeInDoubtFoundsNoCluster(t *testing.T) {
	t.Parallel()
	other := []gossip.Member{{ID: "a", Node: true}, {ID: "b", Node: true, Status: gossip.Failed, Tags: gossip.Tags{Cluster: "c0ffee"}}}
	for name, l := range map[string]*loner{
		"another cluster is seen": {members: other},
		"another may found":       {promised: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.run(t, func() {
				if l.log.Load() {
					t.Error("a cluster was founded")
				}
			})
		})
	}
	t.Run("an address may be another node's", func(t *testing.T) {
		t.Parallel()
		l, doubt := &loner{}, errors.New("it may be another node's")
		l.doubt.Store(&doubt)
		l.run(t, func() {
			if l.log.Load() {
				t.Error("a cluster was founded")
			}
			l.doubt.Store(nil) // the name stands for this node only by now
			time.Sleep(2 * time.Second)
			if !l.log.Load() {
				t.Error("no cluster founded once it was certain")
			}
		})
	})
}
