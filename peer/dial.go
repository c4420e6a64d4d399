package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial opens a stream of the kind to a node, wherever it is now. ctx bounds
// the dialing only, as does HandshakeTimeout. What the error says:
//
//   - ErrUnknownNode: Lookup does not know the node.
//   - IsRefused(err): nobody listens at its address.
//   - a *RefusedError: somebody listens and does not want this stream.
//   - anything else: no answer, a broken connection, ctx.
func (p *Port) Dial(ctx context.Context, node string, kind Kind) (*Conn, error) {
	return p.dial(ctx, node, "", kind)
}

// DialServer is Dial for a server on one certain disk: if the node has another
// by now, it refuses.
func (p *Port) DialServer(ctx context.Context, node, disk string, kind Kind) (*Conn, error) {
	return p.dial(ctx, node, disk, kind)
}

func (p *Port) dial(ctx context.Context, node, disk string, kind Kind) (*Conn, error) {
	self := p.self()
	if kind == Raft && self.Cluster == "" {
		return nil, fmt.Errorf("dial %q for raft: %w", node, ErrNoCluster)
	}
	h, err := hello{kind: kind, from: self, wantNode: node, wantDisk: disk}.encode()
	if err != nil {
		return nil, err
	}
	addr, ok := p.o.Lookup(node)
	if !ok {
		return nil, fmt.Errorf("dial %q: %w", node, ErrUnknownNode)
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.HandshakeTimeout)
	defer cancel()
	raw, err := p.o.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %q at %s: %w", node, addr, err)
	}
	p.tune(raw, kind)
	c, err := p.greet(ctx, raw, h, node, kind)
	if err != nil {
		_ = raw.Close()
		if _, refused := errors.AsType[*RefusedError](err); refused {
			return nil, err
		}
		return nil, fmt.Errorf("greet %q at %s: %w", node, addr, err)
	}
	return c, nil
}

// greet speaks the dialer's part on raw. It gives raw back without deadlines,
// or returns an error and leaves the closing to the caller.
func (p *Port) greet(ctx context.Context, raw net.Conn, h []byte, node string, kind Kind) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = raw.SetDeadline(time.Unix(1, 0)) // in the past: ends reads and writes
	})
	defer stop()
	c := raw
	if p.o.WrapClient != nil {
		w, err := p.o.WrapClient(ctx, raw, node)
		if err != nil {
			return nil, because(ctx, err)
		}
		c = w
	}
	if _, err := c.Write(h); err != nil {
		return nil, because(ctx, err)
	}
	peer, err := readAnswer(c)
	if err != nil {
		if re, refused := errors.AsType[*RefusedError](err); refused {
			re.Node = node
			return nil, re
		}
		return nil, because(ctx, err)
	}
	if err := p.checkAnswer(peer, node); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &Conn{Conn: c, kind: kind, peer: peer}, nil
}

// checkAnswer trusts the other side no more than it trusts us.
func (p *Port) checkAnswer(peer Identity, node string) error {
	var re *RefusedError
	own := p.o.Cluster()
	switch {
	case peer.Node != node:
		re = refuse(RefusedNode, "wanted node %q, node %q answered", node, peer.Node)
	case own != "" && peer.Cluster != "" && peer.Cluster != own:
		re = refuse(RefusedCluster, "it belongs to cluster %q, this node to %q", peer.Cluster, own)
	default:
		return nil
	}
	re.Node = node
	return re
}

// because names the end of ctx instead of the deadline error it led to.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
