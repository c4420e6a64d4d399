package node

import (
	"bufio"
	"context"
	"sync"

	"shardway/ack"
	"shardway/node/logs"
	"shardway/peer"
)

// inbound is a heartbeat on its way to the leader loop, and where its answer
// goes.
type receivedHeartbeat struct {
	hb         ack.Heartbeat
	remoteAddr string
	respond    func(ack.Answer) // does not block
}

// beatSize is how much of a stream of heartbeats or answers is read at once: one of most nodes,
// with its length.
const heartbeatBufferSize = 512

// serveBeats reads the heartbeats of one node while this node leads. Answers go
// out from a goroutine of their own: the leader loop never waits for a socket.
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
			n.suspects.broke(string(last.Node), suspect{boot: last.Boot, nonce: last.Nonce}) //nolint:contextcheck // outlives this stream
		}
	}
}

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

// deliver gives a heartbeat to the leader loop if this node leads.
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

// deliverLocal brings this node's own heartbeat to its own leader loop. It must
// not block: a heartbeat that finds the loop busy is one that got lost.
func (n *Node) deliverOwnHeartbeat(hb ack.Heartbeat) {
	l := n.leading.Load()
	if l == nil {
		return
	}
	replaceLatest(l.own, receivedHeartbeat{hb: hb, remoteAddr: "local", respond: func(a ack.Answer) { replaceLatest(n.ownAnswers, a) }})
}

// tellLeading gives the leader loop, if there is one, a message that is not a
// heartbeat.
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
