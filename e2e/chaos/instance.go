//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// instanceFault affects one app instance of a node that has several. The shards of the instance must move
// to its siblings.
type instanceFault struct {
	// kind is what happens to the instance: "kill -9", "SIGSTOP" or "drain".
	kind   string
	victim *cluster.Node
	place  cluster.Place
	resume func()
}

func (f *instanceFault) name() string { return f.kind + " instance" }

func (f *instanceFault) begin(sc *scenario) {
	f.victim = sc.pickNode(anyNode)
	f.place = cluster.Place{Node: f.victim.ID, Instance: 1 + sc.rng.IntN(len(f.victim.Instances))}
	app := f.victim.Instances[f.place.Instance-1]
	sc.tracef("%s of %s/%d", f.kind, f.place.Node, f.place.Instance)
	switch f.kind {
	case "kill -9":
		app.Kill(sc)
		f.resume = func() { app.Start(sc) }
	case "SIGSTOP":
		f.resume = app.Hang(sc)
	case "drain":
		sc.drains = append(sc.drains, history.Drain{Node: app.Name(), IsInstance: true, From: history.Now()})
		index := len(sc.drains) - 1
		f.submit(sc, "drain")
		f.resume = func() {
			f.submit(sc, "uncordon")
			sc.drains[index].Until = history.Now()
		}
	}
}

// submit sends a request of an operator that concerns the instance. It repeats the request until the node
// accepts it, because the leader may have changed.
func (f *instanceFault) submit(sc *scenario, verb string) {
	params := url.Values{"node": {fmt.Sprint(f.place.Node, "/", f.place.Instance)}}
	sc.retryUntilSuccess(verb+" of an instance", func() error { return f.victim.TryAction(sc.Context(), verb, params) })
}

// whileActive waits until the siblings own the shards of the instance, unless another fault may delay that.
func (f *instanceFault) whileActive(sc *scenario) {
	if !sc.hasTwoFaults {
		sc.retryUntilSuccess("the siblings own the shards of the instance", func() error {
			places, moving, err := f.victim.Places(sc.Context())
			if err == nil && (moving || slices.Contains(places, f.place)) {
				err = errors.New("it still owns shards")
			}
			return err
		})
		sc.tracef("the siblings own the shards")
	}
	sc.awaitLoad()
}

func (f *instanceFault) end(*scenario) { f.resume() }
