package proxy

import (
	"context"
	"sync"

	"shardway/shardmap"
)

// dials holds the connections that are being made to other nodes, each for one
// request: when the request's shard leaves the node, there is nothing to connect
// for any more. Without this a request would wait for a node that does not answer,
// a stopped or cut off one, as long as connecting may take, though its shard has
// been taken from that node meanwhile.
type dials struct {
	mu  sync.Mutex
	all map[*dialing]struct{}
}

// dialing is one of them. Its shard and node do not change.
type dialing struct {
	shard  shardmap.Shard
	node   string
	cancel context.CancelFunc
}

// left reports that the table does not send the shard to the node.
func (d *dialing) left(t *Table) bool {
	r := t.Route(d.shard)
	return r.Kind != Remote || r.Node != d.node
}

func (a *dials) add(d *dialing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*dialing]struct{})
	}
	a.all[d] = struct{}{}
}

func (a *dials) remove(d *dialing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, d)
}

// look ends those whose shard has left their node.
func (a *dials) look(t *Table) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for d := range a.all {
		if d.left(t) {
			d.cancel()
		}
	}
}

// connectPeer dials a node for the request's shard, for a place that its pool
// gave. Left tells that the error is no wonder: the shard left the node.
func (c *client) connectPeer(p *pool, node string) (l *link, left bool, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	d := &dialing{shard: c.x.shard, node: node, cancel: cancel}
	c.s.dials.add(d)
	defer c.s.dials.remove(d)
	// Who swaps the table looks after that: one of the two sees the other.
	if d.left(c.s.o.Cluster.Table()) {
		cancel()
	}
	if l, err = p.connect(ctx); err != nil {
		return nil, d.left(c.s.o.Cluster.Table()), err
	}
	return l, false, nil
}
