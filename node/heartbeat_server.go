package node

import (
	"bufio"
	"context"
	"sync"

	"shardway/ack"
	"shardway/node/crashdetect"
	"shardway/node/logs"
	"shardway/peer"
)

// receivedHeartbeat is a heartbeat for the leader loop. respond sends the leader's response.
type receivedHeartbeat struct {
	hb         ack.Heartbeat
	remoteAddr string
	respond    func(ack.Answer) // does not block
}

// heartbeatBufferSize is the size of the read buffer of a heartbeat stream, in bytes. The heartbeat
// of most nodes fits in it, with its length.
const heartbeatBufferSize = 512

// serveHeartbeats reads the heartbeats of one node until c closes or a heartbeat is invalid, and
// passes them to the leader loop. A separate goroutine writes the responses, so the leader loop never
// waits for a socket. The end of a stream without a goodbye starts a check whether the node crashed.
func (n *Node) serveHeartbeats(ctx context.Context, c *peer.Conn) {
	defer closeStream(c)
	answers := make(chan ack.Answer, 1)
	var writer sync.WaitGroup
	writing, stop := context.WithCancel(ctx)
	defer writer.Wait()
	defer stop()
	writer.Go(func() { writeResponses(writing, c, answers) })
	in := bufio.NewReaderSize(c, heartbeatBufferSize)
	var buf []byte
	var last ack.Heartbeat
	remoteAddr := c.RemoteAddr().String()
	for {
		b, err := peer.ReadFrame(in, buf, ack.MaxMessage)
		if err != nil {
			break
		}
		buf = b
		var hb ack.Heartbeat
		if err := hb.UnmarshalBinary(b); err != nil || string(hb.Node) != c.Node() || hb.Server != serverID(c.Node(), c.Peer().Disk) {
			if n.invalidHeartbeats.Pass(c.Node()) {
				n.log.Warn().Err(err).Str("peer", c.Node()).Str("claimed", logs.Cut(string(hb.Node))).Str("server", logs.Cut(hb.Server)).Msg("invalid heartbeat")
			}
			break
		}
		last = hb
		n.deliverHeartbeat(ctx, receivedHeartbeat{hb: hb, remoteAddr: remoteAddr, respond: func(a ack.Answer) {
			if a.Refusal == 0 {
				n.diskRecords.learnHeartbeat(hb)
			}
			replaceLatest(answers, a)
		}})
	}
	if ctx.Err() == nil && last.Boot != 0 {
		n.sendToLeaderLoop(ack.ConnClosed{Node: last.Node, Nonce: last.Nonce})
		if !last.Goodbye {
			n.crashes.ConnClosed(string(last.Node), crashdetect.Process{Boot: last.Boot, Nonce: last.Nonce}) //nolint:contextcheck // outlives this stream
		}
	}
}

// writeResponses writes responses to c until ctx ends. It closes c after an error.
func writeResponses(ctx context.Context, c *peer.Conn, answers <-chan ack.Answer) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-answers:
			b, err := a.MarshalBinary()
			if err == nil {
				err = peer.WriteFrame(c, b)
			}
			if err != nil {
				closeStream(c)
				return
			}
		}
	}
}

// deliverHeartbeat passes a heartbeat to the leader loop if this node leads. It refuses a heartbeat
// from a disk that was rolled back to an older image.
func (n *Node) deliverHeartbeat(ctx context.Context, in receivedHeartbeat) {
	l := n.leading.Load()
	if l == nil {
		return
	}
	if err := n.diskRecords.check(in.hb); err != nil && in.hb.Term == l.term {
		if n.invalidHeartbeats.Pass(string(in.hb.Node)) {
			n.log.Warn().Err(err).Str("peer", string(in.hb.Node)).Msg("heartbeat refused")
		}
		in.respond(ack.Answer{Level: in.hb.Level, Term: l.term, Boot: in.hb.Boot, Beat: in.hb.Number, Refusal: ack.RefusedRollback, Known: n.diskRecords.table.Of(in.hb.Server).Boot})
		return
	}
	select {
	case l.beats <- in:
	case <-l.done:
	case <-ctx.Done():
	}
}

// deliverOwnHeartbeat passes this node's own heartbeat to its own leader loop, if it leads. It does
// not block: if the loop is busy, a newer heartbeat replaces this one, as if it was lost.
func (n *Node) deliverOwnHeartbeat(hb ack.Heartbeat) {
	l := n.leading.Load()
	if l == nil {
		return
	}
	replaceLatest(l.own, receivedHeartbeat{hb: hb, remoteAddr: "local", respond: func(a ack.Answer) { replaceLatest(n.ownAnswers, a) }})
}

// sendToLeaderLoop passes a message other than a heartbeat to the leader loop, if this node leads.
func (n *Node) sendToLeaderLoop(m ack.Message) {
	l := n.leading.Load()
	if l == nil {
		return
	}
	select {
	case l.messages <- m:
	case <-l.done:
	}
}
