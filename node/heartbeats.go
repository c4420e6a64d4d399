package node

import (
	"context"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/internal/chanutil"
	"shardway/node/crashdetect"
	"shardway/node/heartbeat"
)

// newHeartbeatServer creates the server of the heartbeat streams that other nodes open. The end of a stream
// without a goodbye starts a check whether the node crashed.
func (n *Node) newHeartbeatServer() *heartbeat.Server {
	return &heartbeat.Server{
		Deliver: n.deliverHeartbeat, OnAccepted: n.diskRecords.LearnHeartbeat, InvalidLog: &n.invalidHeartbeats, Log: n.log,
		OnClosed: func(last ack.Heartbeat) {
			n.sendToLeaderLoop(leader.ConnClosed{Node: last.Node, Nonce: last.Nonce})
			if !last.Goodbye {
				n.crashes.ConnClosed(string(last.Node), crashdetect.Process{Boot: last.Boot, Nonce: last.Nonce}) // outlives the stream
			}
		},
	}
}

// deliverHeartbeat passes a heartbeat to the leader loop if this node leads. It refuses a heartbeat
// from a disk that was rolled back to an older image.
func (n *Node) deliverHeartbeat(ctx context.Context, in heartbeat.Received) {
	l := n.leading.Load()
	if l == nil {
		return
	}
	if err := n.diskRecords.CheckHeartbeat(in.Heartbeat); err != nil && in.Heartbeat.Term == l.Term() {
		if n.invalidHeartbeats.Pass(string(in.Heartbeat.Node)) {
			n.log.Warn().Err(err).Str("peer", string(in.Heartbeat.Node)).Msg("heartbeat refused")
		}
		in.Respond(ack.Answer{FormatVersion: in.Heartbeat.FormatVersion, Term: l.Term(), Boot: in.Heartbeat.Boot, HeartbeatNumber: in.Heartbeat.Number, Refusal: ack.RefusedRollback, KnownBoot: n.diskRecords.Table().Of(in.Heartbeat.Server).Boot})
		return
	}
	l.Deliver(ctx, in)
}

// deliverOwnHeartbeat passes this node's own heartbeat to its own leader loop, if it leads. It does
// not block: if the loop is busy, a newer heartbeat replaces this one, as if it was lost.
func (n *Node) deliverOwnHeartbeat(hb ack.Heartbeat) {
	l := n.leading.Load()
	if l == nil {
		return
	}
	l.DeliverOwn(heartbeat.Received{Heartbeat: hb, RemoteAddr: "local", Respond: func(a ack.Answer) { chanutil.Replace(n.ownAnswers, a) }})
}

// sendToLeaderLoop passes a message other than a heartbeat to the leader loop, if this node leads.
func (n *Node) sendToLeaderLoop(m leader.Message) {
	if l := n.leading.Load(); l != nil {
		l.Send(m)
	}
}
