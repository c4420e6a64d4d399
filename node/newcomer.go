package node

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"shardway/diagnosis"
	"shardway/internal/logsafe"
	"shardway/node/control"
	"shardway/node/gossip"
)

const (
	// peerCheckAfter is how long a node waits to be added to a cluster before it asks whether
	// its peer port is reached, or how long the leader does not reach one before it reports that.
	peerCheckAfter = 3 * time.Second
	// peerCheckEvery is the time between two such questions, and peerCheckLimit bounds one.
	peerCheckEvery = 3 * time.Second
	peerCheckLimit = 4 * time.Second
	// maxPeersAsked is the number of members that are asked at most until one of them answers.
	maxPeersAsked = 5
)

// reachability is the answer of a node to the question whether it reaches the peer port of the
// node that asks. An empty Why means that it does.
type reachability struct {
	Addr string `json:"addr"`
	Why  string `json:"why"`
}

// reachable tells a node whether this one reaches its peer port, at the address that gossip
// contains.
func (n *Node) reachable(ctx context.Context, node string) (r reachability) {
	addr, ok := n.lookup(node)
	if !ok {
		return reachability{Why: "gossip contains no peer address of it yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	r.Addr = addr
	if _, err := (others{n}).Who(ctx, node); err != nil {
		r.Why = unreachedReason(err)
	}
	return r
}

// unreachedReason is an error of a question to a node, without the address.
func unreachedReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within 1 s"
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err.Error()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if short := plain(inner); short != inner.Error() {
			return logsafe.OneLine(short)
		}
	}
	return logsafe.OneLine(err.Error())
}

// peerCheck finds out why a node that waits to be added to a cluster is not: it asks a member
// whether it reaches this node's peer port. The leader reports the same, but this node does not
// know of a leader yet. A node that founds a cluster together with others asks all of them.
type peerCheck struct {
	waits diagnosis.For // watch's goroutine

	mu      sync.Mutex
	running bool
	asked   time.Time
	found   *diagnosis.Unreached
}

// look starts a question in the background if it is time for one. unborn is nil if this node
// belongs to a cluster.
func (p *peerCheck) look(ctx context.Context, w *watch, now time.Time, unborn *diagnosis.Unborn) {
	cluster := unborn.Waits()
	waiting := cluster != "" || unborn.Founds()
	waits := p.waits.Look(now, waiting)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !waiting {
		p.found = nil
	}
	if waits < peerCheckAfter || p.running || now.Sub(p.asked) < peerCheckEvery {
		return
	}
	p.running, p.asked = true, now
	w.probing.Go(func() {
		found := w.n.checkPeerPort(ctx, cluster)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running, p.found = false, found
	})
}

// list returns what the last question found.
func (p *peerCheck) list() []diagnosis.Unreached {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		return nil
	}
	return []diagnosis.Unreached{*p.found}
}

// checkPeerPort asks members of a cluster, until one answers, whether they reach this node. It
// returns nil if one does, or if nothing is known. If cluster is empty, it asks the nodes that
// belong to no cluster yet, until one is not reached or does not reach this node.
func (n *Node) checkPeerPort(ctx context.Context, cluster string) (found *diagnosis.Unreached) {
	self, asked := string(n.self), 0
	for _, m := range n.gossip.Members() {
		if !m.Node || m.ID == self || m.Status != gossip.Alive || m.Tags.Cluster != cluster {
			continue
		}
		if asked++; asked > maxPeersAsked {
			break
		}
		asking, cancel := context.WithTimeout(ctx, peerCheckLimit)
		var r reachability
		err := n.client.Call(asking, m.ID, control.Request{Kind: control.Reachable}, &r)
		cancel()
		if _, undialed := errors.AsType[control.DialError](err); undialed && found == nil {
			addr, _ := n.lookup(m.ID)
			found = &diagnosis.Unreached{Node: m.ID, By: self, Addr: addr, Why: unreachedReason(err)}
		}
		if err != nil {
			continue
		}
		switch {
		case r.Why == "" && cluster != "":
			return nil
		case r.Why == "":
			continue
		}
		return &diagnosis.Unreached{Node: self, By: m.ID, Addr: r.Addr, Why: logsafe.OneLine(r.Why)}
	}
	return found
}

// unconfirmed lists the nodes that this leader does not add because it does not reach them. It
// returns nil if this node does not lead.
func (n *Node) unconfirmed() []diagnosis.Unreached {
	l := n.leading.Load()
	if l == nil {
		return nil
	}
	all := []diagnosis.Unreached{}
	for _, u := range l.keeper.Unconfirmed() {
		if time.Since(u.Since) < peerCheckAfter {
			continue
		}
		addr, _ := n.lookup(u.Node)
		all = append(all, diagnosis.Unreached{Node: u.Node, By: string(n.self), Addr: addr, Why: unreachedReason(u.Err)})
	}
	return all
}
