package peer

import (
	"context"
	"crypto/tls"
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
//   - a *RefusedError: somebody listens and does not want this stream. A node
//     that does not know this one yet is asked again for 5 s.
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
	h := hello{kind: kind, from: self, wantNode: node, wantDisk: disk}
	if disk != "" {
		h.knownBoot, h.known = p.o.Past.Known(node, disk)
	}
	first, err := h.encode()
	if err != nil {
		return nil, err
	}
	c, err := p.dialWithRetry(ctx, node, first, kind)
	if !isUnknown(err) {
		return c, err
	}
	return p.dialUntilKnown(ctx, node, first, kind, err)
}

// How a node is dialed again that has not heard of this one: gossip takes a
// moment.
const (
	retryUnknownFor = 5 * time.Second
	minUnknownPause = 25 * time.Millisecond
	maxUnknownPause = 400 * time.Millisecond
)

func isUnknown(err error) bool {
	re, ok := errors.AsType[*RefusedError](err)
	return ok && re.Code == RefusedUnknown
}

// insist dials until the other side knows this node, ctx ends or insistFor is
// over.
func (p *Port) dialUntilKnown(ctx context.Context, node string, h []byte, kind Kind, last error) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, retryUnknownFor)
	defer cancel()
	for pause := minUnknownPause; ; pause = min(2*pause, maxUnknownPause) {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, last
		}
		c, err := p.dialWithRetry(ctx, node, h, kind)
		switch {
		case isUnknown(err):
			last = err
		case err != nil && ctx.Err() != nil:
			return nil, last
		default:
			return c, err
		}
	}
}

// dialsAgain is what an error of Options.WrapClient may be.
type retryableError interface {
	error
	DialAgain() bool
}

// dialsMost is how often it is dialed at most because what is beneath the preface asks for
// that: another stream that begins meanwhile may leave what is out of date, too.
const maxDialAttempts = 4

// try dials, and again if what is beneath the preface asks for that.
func (p *Port) dialWithRetry(ctx context.Context, node string, h []byte, kind Kind) (c *Conn, err error) {
	for range maxDialAttempts {
		c, err = p.dialOnce(ctx, node, h, kind)
		if e, ok := errors.AsType[retryableError](err); !ok || !e.DialAgain() {
			break
		}
	}
	return c, err
}

// once dials once.
func (p *Port) dialOnce(ctx context.Context, node string, h []byte, kind Kind) (*Conn, error) {
	addr, ok := p.o.Lookup(node)
	if !ok {
		return nil, fmt.Errorf("dial %q: %w", node, ErrUnknownNode)
	}
	return p.dialAddr(ctx, addr, node, h, kind)
}

// Belongs asks the node that is said to be at a peer address, and that another cluster than
// this node's shows, to which one it belongs. It answers for itself, sealed as any stream: what
// others say of it may be old, or made up. An error: there is none, or it does not say.
func (p *Port) Belongs(ctx context.Context, node, addr string) (cluster string, err error) {
	self := p.self()
	h, err := (&hello{kind: Control, from: self, wantNode: node}).encode()
	if err != nil {
		return "", err
	}
	c, err := p.dialAddr(ctx, addr, node, h, Control)
	if err == nil {
		_ = c.Close() // it was asked for its answer alone
		return c.peer.Cluster, nil
	}
	var dialer, its, own string
	if re, ok := errors.AsType[*RefusedError](err); ok && re.Code == RefusedCluster {
		if n, _ := fmt.Sscanf(re.Reason, clustersDiffer, &dialer, &its, &own); n == 3 && its == self.Cluster { // what is missing counts
			return own, nil
		}
	}
	return "", err
}

// Identify returns what the node at a peer address, with a disk, says about itself. The address
// need not be the one that Lookup returns. Another node or disk there is an error.
func (p *Port) Identify(ctx context.Context, node, disk, addr string) (Identity, error) {
	h, err := (&hello{kind: Control, from: p.self(), wantNode: node, wantDisk: disk}).encode()
	if err != nil {
		return Identity{}, err
	}
	c, err := p.dialAddr(ctx, addr, node, h, Control)
	if err != nil {
		return Identity{}, err
	}
	_ = c.Close() // it was dialed for its answer alone
	return c.peer, nil
}

// at dials a node at an address.
func (p *Port) dialAddr(ctx context.Context, addr, node string, h []byte, kind Kind) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.HandshakeTimeout)
	defer cancel()
	raw, err := p.o.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %q at %s: %w", node, addr, err)
	}
	raw = newLowLatencyConn(raw, &p.poller)
	p.tune(raw, kind)
	c, err := p.handshake(ctx, raw, h, node, kind)
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
func (p *Port) handshake(ctx context.Context, raw net.Conn, h []byte, node string, kind Kind) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = raw.SetDeadline(time.Unix(1, 0)) // in the past: ends reads and writes
	})
	defer stop()
	c := raw
	if p.o.WrapClient != nil {
		w, err := p.o.WrapClient(ctx, raw, node)
		if th, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(th.RecordHeader[:len(magic)]) == magic {
			return nil, &RefusedError{Node: node, Code: RefusedSeal, Reason: reasonNoTLSThere}
		}
		if err != nil {
			return nil, contextCause(ctx, err)
		}
		c = w
	}
	if _, err := c.Write(h); err != nil {
		return nil, contextCause(ctx, err)
	}
	peer, err := readResponse(c)
	if err != nil {
		if re, refused := errors.AsType[*RefusedError](err); refused {
			re.Node = node
			return nil, re
		}
		return nil, contextCause(ctx, err)
	}
	if err := p.checkAnswer(peer, node); err != nil {
		return nil, err
	}
	if why, reason := p.o.Past.Meet(ctx, Meeting{Kind: kind, Far: peer, Dialled: true}); why != 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotTrusted, reason)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if plain := applyKind(raw, kind); p.o.WrapClient == nil {
		c = plain
	}
	return &Conn{Conn: c, kind: kind, peer: peer, direct: p.o.WrapClient == nil}, nil
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
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
