package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial opens a stream of the given kind to a node, at its current address. ctx and HandshakeTimeout
// limit only the dialing, not the stream. Its errors are:
//
//   - ErrUnknownNode: Lookup has no address for the node.
//   - IsRefused(err): no process listens at its address.
//   - a *RefusedError: a node listens and refuses this stream. If that node does not know this
//     one yet, Dial tries again for 5 s.
//   - ErrNotTrusted: Options.DiskRecords refuses the other side.
//   - any other error: no response, a broken connection, or the end of ctx.
func (p *Port) Dial(ctx context.Context, node string, kind Kind) (*Conn, error) {
	return p.dial(ctx, node, "", kind)
}

// DialServer is like Dial, for a node with a certain disk. The node refuses the stream if it now
// has another disk.
func (p *Port) DialServer(ctx context.Context, node, disk string, kind Kind) (*Conn, error) {
	return p.dial(ctx, node, disk, kind)
}

func (p *Port) dial(ctx context.Context, node, disk string, kind Kind) (*Conn, error) {
	self := p.self()
	if kind == Raft && self.Cluster == "" {
		return nil, fmt.Errorf("dial %q for raft: %w", node, ErrNoCluster)
	}
	greeting := hello{kind: kind, sender: self, wantedNode: node, wantedDisk: disk}
	if disk != "" {
		greeting.knownBoot, greeting.knownRecord = p.options.DiskRecords.RecordOf(node, disk)
	}
	encodedHello, err := greeting.encode()
	if err != nil {
		return nil, err
	}
	conn, err := p.dialWithRetry(ctx, node, encodedHello, kind)
	if !isUnknownNode(err) {
		return conn, err
	}
	return p.dialUntilKnown(ctx, node, encodedHello, kind, err)
}

// A node that does not know this node yet is dialed again for up to retryUnknownFor, because gossip
// needs some time. The pause doubles from minUnknownPause to maxUnknownPause.
const (
	retryUnknownFor = 5 * time.Second
	minUnknownPause = 25 * time.Millisecond
	maxUnknownPause = 400 * time.Millisecond
)

func isUnknownNode(err error) bool {
	refusal, ok := errors.AsType[*RefusedError](err)
	return ok && refusal.Code == RefusedUnknownNode
}

// dialUntilKnown dials repeatedly until the other side knows this node, ctx ends, or
// retryUnknownFor has passed.
func (p *Port) dialUntilKnown(ctx context.Context, node string, encodedHello []byte, kind Kind, lastErr error) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, retryUnknownFor)
	defer cancel()
	for pause := minUnknownPause; ; pause = min(2*pause, maxUnknownPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, lastErr
		}
		conn, err := p.dialWithRetry(ctx, node, encodedHello, kind)
		switch {
		case isUnknownNode(err):
			lastErr = err
		case err != nil && ctx.Err() != nil:
			return nil, lastErr
		default:
			return conn, err
		}
	}
}

// retryableError is an error of Options.WrapClient that can request another dial.
type retryableError interface {
	error
	DialAgain() bool
}

// maxDialAttempts limits the dials that WrapClient can request. One retry may not be enough, because
// another stream that is opened at the same time can also leave outdated state.
const maxDialAttempts = 4

// dialWithRetry dials, and dials again if WrapClient requests that.
func (p *Port) dialWithRetry(ctx context.Context, node string, encodedHello []byte, kind Kind) (c *Conn, err error) {
	for range maxDialAttempts {
		c, err = p.dialOnce(ctx, node, encodedHello, kind)
		if retryErr, ok := errors.AsType[retryableError](err); !ok || !retryErr.DialAgain() {
			break
		}
	}
	return c, err
}

// dialOnce looks up the node and dials it once.
func (p *Port) dialOnce(ctx context.Context, node string, encodedHello []byte, kind Kind) (*Conn, error) {
	addr, ok := p.options.Lookup(node)
	if !ok {
		return nil, fmt.Errorf("dial %q: %w", node, ErrUnknownNode)
	}
	return p.dialAddr(ctx, addr, node, encodedHello, kind)
}

// ClusterOf returns the cluster of the node at addr, which gossip of another cluster has announced.
// It queries the node itself, over TLS if the port uses it, because reports of other nodes may be
// outdated or forged. It returns an error if no node responds or the response does not contain a
// cluster.
func (p *Port) ClusterOf(ctx context.Context, node, addr string) (cluster string, err error) {
	self := p.self()
	encodedHello, err := (&hello{kind: Control, sender: self, wantedNode: node}).encode()
	if err != nil {
		return "", err
	}
	conn, err := p.dialAddr(ctx, addr, node, encodedHello, Control)
	if err == nil {
		_ = conn.Close() // only the response was needed
		return conn.peer.Cluster, nil
	}
	refusal, ok := errors.AsType[*RefusedError](err)
	if !ok || refusal.Code != RefusedClusterMismatch {
		return "", err
	}
	var dialer, dialerCluster, reported string
	parsed, _ := fmt.Sscanf(refusal.Reason, clustersDiffer, &dialer, &dialerCluster, &reported)
	if parsed < 3 || dialerCluster != self.Cluster {
		return "", err
	}
	return reported, nil
}

// Identify returns the identity that the node at addr reports. node and disk are the expected node
// and disk; another one causes an error. addr may differ from the address that Lookup returns.
func (p *Port) Identify(ctx context.Context, node, disk, addr string) (Identity, error) {
	encodedHello, err := (&hello{kind: Control, sender: p.self(), wantedNode: node, wantedDisk: disk}).encode()
	if err != nil {
		return Identity{}, err
	}
	conn, err := p.dialAddr(ctx, addr, node, encodedHello, Control)
	if err != nil {
		return Identity{}, err
	}
	_ = conn.Close() // only the response was needed
	return conn.peer, nil
}

// dialAddr dials a node at an address.
func (p *Port) dialAddr(ctx context.Context, addr, node string, encodedHello []byte, kind Kind) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.HandshakeTimeout)
	defer cancel()
	raw, err := p.options.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %q at %s: %w", node, addr, err)
	}
	raw = newLowLatencyConn(raw, &p.poller)
	p.setTCPOptions(raw, kind)
	conn, err := p.handshake(ctx, raw, encodedHello, node, kind)
	if err != nil {
		_ = raw.Close()
		if _, refused := errors.AsType[*RefusedError](err); refused {
			return nil, err
		}
		return nil, fmt.Errorf("greet %q at %s: %w", node, addr, err)
	}
	return conn, nil
}

// handshake performs the dialer's side of the handshake on raw, and sends encodedHello. On success
// it clears the deadlines of raw. After an error the caller must close raw.
func (p *Port) handshake(ctx context.Context, raw net.Conn, encodedHello []byte, node string, kind Kind) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = raw.SetDeadline(time.Unix(1, 0)) // a deadline in the past ends reads and writes
	})
	defer stop()
	secured, err := p.wrapClient(ctx, raw, node)
	if err != nil {
		return nil, err
	}
	peer, err := exchangeHello(ctx, secured, encodedHello, node)
	if err != nil {
		return nil, err
	}
	if err := p.checkPeerIdentity(peer, node); err != nil {
		return nil, err
	}
	if code, reason := p.options.DiskRecords.CheckHandshake(ctx, Handshake{Kind: kind, Peer: peer, Dialed: true}); code != 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotTrusted, reason)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if plain := applyKind(raw, kind); p.options.WrapClient == nil {
		secured = plain
	}
	return &Conn{Conn: secured, kind: kind, peer: peer, direct: p.options.WrapClient == nil}, nil
}

// wrapClient adds the layer of Options.WrapClient, such as TLS, to a dialed connection.
func (p *Port) wrapClient(ctx context.Context, raw net.Conn, node string) (net.Conn, error) {
	if p.options.WrapClient == nil {
		return raw, nil
	}
	secured, err := p.options.WrapClient(ctx, raw, node)
	if isPeerProtocolWithoutTLS(err) {
		return nil, &RefusedError{Node: node, Code: RefusedTLSMismatch, Reason: reasonNoTLSThere}
	}
	if err != nil {
		return nil, contextCause(ctx, err)
	}
	return secured, nil
}

// isPeerProtocolWithoutTLS reports whether a TLS handshake failed with err because the other side
// uses the protocol of this package without TLS.
func isPeerProtocolWithoutTLS(err error) bool {
	recordErr, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && string(recordErr.RecordHeader[:len(magic)]) == magic
}

// exchangeHello sends the hello and returns the identity in the response of the other side. If the
// other side refuses the stream, the error is a *RefusedError.
func exchangeHello(ctx context.Context, conn net.Conn, encodedHello []byte, node string) (Identity, error) {
	if _, err := conn.Write(encodedHello); err != nil {
		return Identity{}, contextCause(ctx, err)
	}
	peer, err := readResponse(conn)
	if refusal, refused := errors.AsType[*RefusedError](err); refused {
		refusal.Node = node
		return Identity{}, refusal
	}
	if err != nil {
		return Identity{}, contextCause(ctx, err)
	}
	return peer, nil
}

// checkPeerIdentity checks the node and the cluster of the other side. The other side does the same
// for this node.
func (p *Port) checkPeerIdentity(peer Identity, node string) error {
	var refusal *RefusedError
	ownCluster := p.options.Cluster()
	bothHaveCluster := ownCluster != "" && peer.Cluster != ""
	switch {
	case peer.Node != node:
		refusal = newRefusal(RefusedWrongNode, "wanted node %q, node %q answered", node, peer.Node)
	case bothHaveCluster && peer.Cluster != ownCluster:
		refusal = newRefusal(RefusedClusterMismatch, "it belongs to cluster %q, this node to %q", peer.Cluster, ownCluster)
	default:
		return nil
	}
	refusal.Node = node
	return refusal
}

// contextCause returns the cause of the end of ctx, if ctx has ended, and otherwise err. The end of
// ctx makes reads and writes return a less specific deadline error.
func contextCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
