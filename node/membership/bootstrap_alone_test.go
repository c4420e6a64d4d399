package membership_test

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
	"shardway/node/membership"
)

// aloneNode is a new node whose only join address is its own.
type aloneNode struct {
	promised string
	members  []gossip.Member
	log      atomic.Bool
	doubt    atomic.Pointer[error]
}

func (l *aloneNode) Cluster() (id string, shards int)     { return "", 8 }
func (l *aloneNode) PromisedNode() (to string, err error) { return l.promised, nil }
func (l *aloneNode) StorePromise(to string) error         { l.promised = to; return nil }
func (l *aloneNode) StartedEmpty() bool                   { return !l.log.Load() }
func (l *aloneNode) Configuration() []consensus.Server    { return nil }
func (l *aloneNode) Bootstrap() error                     { l.log.Store(true); return nil }
func (l *aloneNode) Campaign() error                      { return nil }
func (l *aloneNode) Members() []gossip.Member             { return l.members }

func (l *aloneNode) only(context.Context) error {
	if p := l.doubt.Load(); p != nil {
		return *p
	}
	return nil
}

// run runs the Bootstrapper of l for a minute, and then calls then.
func (l *aloneNode) run(t *testing.T, then func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b := membership.NewBootstrapper(membership.BootstrapperOptions{
			Self: "a", BootstrapExpect: 1, HasJoinAddrs: true, JoinsOnlyItself: l.only, Dir: l, Raft: l, Gossip: l,
			OnFailure: func(err error) { t.Error(err) }, Log: zerolog.Nop(),
		})
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		time.Sleep(time.Minute)
		then()
		stop()
		<-done
	})
}

func TestNodeThatJoinsOnlyItselfBootstraps(t *testing.T) {
	t.Parallel()
	l := &aloneNode{promised: "a", members: []gossip.Member{{ID: "a", Node: true}, {ID: "b", Node: true}}}
	l.run(t, func() {
		if !l.log.Load() {
			t.Error("no cluster founded")
		}
	})
}

func TestNodeWithUncertainJoinAddressDoesNotBootstrap(t *testing.T) {
	t.Parallel()
	other := []gossip.Member{{ID: "a", Node: true}, {ID: "b", Node: true, Status: gossip.Failed, Tags: gossip.Tags{Cluster: "c0ffee"}}}
	for name, l := range map[string]*aloneNode{
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
		l, doubt := &aloneNode{}, errors.New("it may be another node's")
		l.doubt.Store(&doubt)
		l.run(t, func() {
			if l.log.Load() {
				t.Error("a cluster was founded")
			}
			l.doubt.Store(nil) // the name now resolves to this node only
			time.Sleep(2 * time.Second)
			if !l.log.Load() {
				t.Error("no cluster founded once it was certain")
			}
		})
	})
}
