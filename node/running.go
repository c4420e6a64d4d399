package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shardway/admin/api"
	"shardway/shardmap"
)

const (
	// runningTimeout is how long a node has to tell what runs there.
	runningTimeout = time.Second
	// censusEvery is the shortest time from one time that all are asked to the next,
	// however many want to know.
	censusEvery = time.Second
)

// runningThere is what a node tells of what it does at this moment.
type runningThere struct {
	Requests int    `json:"requests"`
	Sockets  int    `json:"sockets"`
	Waiting  int    `json:"waiting"`
	Held     int    `json:"held"`
	LeaseMS  int64  `json:"lease_ms"`
	Version  string `json:"version"`
	// Leaving: this process is to own nothing, as its machine or a signal has asked.
	Leaving bool `json:"leaving"`
}

// untold is what is known of a node that tells nothing; one of an older version leaves out
// what it does not know of.
func untold() runningThere {
	return runningThere{Requests: -1, Sockets: -1, Waiting: -1, Held: -1, LeaseMS: -1}
}

func (n *Node) runningHere() runningThere {
	requests, sockets := n.running()
	return runningThere{
		Requests: requests, Sockets: sockets, Waiting: n.room.Stats().Waiting, Held: n.heldShards(),
		LeaseMS: leaseMS(n.router.LeaseLeft()), Version: n.o.Version, Leaving: n.agent.leaving.Load(),
	}
}

// running counts what runs at this node's app.
func (n *Node) running() (requests, sockets int) {
	return n.router.running.running(func(shardmap.Shard) bool { return false }), n.proxy.CountUpgraded()
}

// leaseMS rounds up: what is left is not nothing.
func leaseMS(left time.Duration) int64 {
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// census keeps what the nodes told last, in answer to one question. Make it with newCensus.
type census[T any] struct {
	place chan struct{} // cap 1: held while the nodes are asked; the next ones wait for the same answer
	asked time.Time     // when they had told; zero: never
	last  T
}

func newCensus[T any]() census[T] { return census[T]{place: make(chan struct{}, 1)} }

// take asks by ask, at most once in censusEvery for all who want to know, and takes so long
// at most. Who wanted to know first may leave meanwhile: the others want to know all the
// same. Who leaves while it waits is told nothing. What take returns is nobody's to change.
func (c *census[T]) take(ctx context.Context, long time.Duration, ask func(context.Context) T) (told T) {
	select {
	case c.place <- struct{}{}:
		defer func() { <-c.place }()
	case <-ctx.Done():
		return told
	}
	if !c.asked.IsZero() && time.Since(c.asked) < censusEvery {
		return c.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), long)
	defer cancel()
	c.last = ask(ctx)
	c.asked = time.Now()
	return c.last
}

// Running asks every node what it does, at most once in censusEvery.
func (n *Node) Running(ctx context.Context) api.RunningList {
	return n.census.take(ctx, runningTimeout, n.askRunning)
}

func (n *Node) askRunning(ctx context.Context) api.RunningList {
	told, silent := queryNodes(ctx, n, request{What: askRunning}, untold())
	told[string(n.self)] = n.runningHere()
	list := api.RunningList{Unresponsive: silent}
	for node, x := range told {
		list.Nodes = append(list.Nodes, api.Running{
			Node: node, Version: x.Version, LeaseMS: x.LeaseMS, Requests: x.Requests, Sockets: x.Sockets, Queued: x.Waiting, Held: x.Held,
		})
	}
	slices.SortFunc(list.Nodes, func(a, b api.Running) int { return cmp.Compare(a.Node, b.Node) })
	return list
}
