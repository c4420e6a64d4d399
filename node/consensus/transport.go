package consensus

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/logs"
)

// maxPool is how many idle connections to a server are kept: one for entries, one
// for heartbeats. Each keeps 512 KB.
const maxPool = 2

// transport is the library's transport with three repairs.
//
// It has patience for servers that cannot be reached. Each error that Raft sees doubles the pause before it sends entries
// to that server again, up to ten seconds, and a server that is back must not
// wait for that. So a failed dial is no error as long as this node leads, nor is a
// stream that a server takes and closes, as one does that has cut itself off.
//
// It sends once more what was lost with an old connection. The library keeps
// connections for as long as it lives, does not look whether they are still open,
// and takes the first error for the answer: of a voter that was started again
// meanwhile that is a lost vote, and perhaps a lost election.
//
// And it knows who is at the other end of a stream, see inbound.go, and shows what
// arrives to Raft.look first.
//
// It embeds the library's, which keeps the pre-vote: Raft looks for its method.
type transport struct {
	*raft.NetworkTransport
	layer *layer
	seen  *progress
	inbox chan raft.RPC // unbuffered, like the library's
	// arrived is unbuffered: from the streams to the relay.
	arrived chan raft.RPC
	closed  chan struct{} // latch
	once    sync.Once
	// votes asks for votes, and waits for what the other disk has to write before there is one.
	votes      *raft.NetworkTransport
	heartbeats heartbeats
	// look takes a request, or returns it, perhaps changed, for Raft.
	look func(*transport, raft.RPC) (out raft.RPC, taken bool)
	// beside has the library take a heartbeat, or returns false: then Raft does.
	beside func(t *transport, rpc raft.RPC, take func(raft.RPC)) (taken bool)
	// waits reports whether it is worth trying on: this node still leads in the
	// term and the server is still to be led.
	waits func(id raft.ServerID, term uint64) bool
	// told is Options.Stated.
	told    func(server string, term uint64)
	heard   func() // Options.Heard, never nil
	timeout time.Duration
	log     zerolog.Logger
	spoofs  pace // who speaks as another, in the log

	beat struct {
		sync.Mutex
		take func(raft.RPC) // the library's way for heartbeats
	}
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// newTransport returns the transport of r over o.Stream; it runs until Close.
func newTransport(o *Options, seen *progress, r *Raft) *transport {
	l := o.Stream.layer()
	t := &transport{
		layer:   l,
		seen:    seen,
		inbox:   make(chan raft.RPC),
		arrived: make(chan raft.RPC),
		closed:  make(chan struct{}),
		look:    r.look,
		beside:  r.beside,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:          dialing{l},
			MaxPool:         maxPool,
			MaxRPCsInFlight: 1,
			Timeout:         o.Timeout,
			Logger:          logs.Hclog(o.Log, "raft-net"),
		}),
		votes: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: voting{dialing{l}, o.Timeout}, MaxPool: 1, Timeout: max(o.Timeout, 2*votesLate), Logger: logs.Hclog(o.Log, "raft-net"),
		}),
		heartbeats: heartbeats{dial: l.Dial, timeout: o.Timeout, to: map[raft.ServerAddress]*beats{}},
		waits:      r.waits,
		told:       o.Stated, heard: o.Heard, timeout: o.Timeout, log: o.Log, spoofs: pace{every: time.Second},
	}
	go t.accept()
	go t.relay()
	return t
}

// SetHeartbeatHandler sets the library's way for heartbeats.
func (t *transport) SetHeartbeatHandler(take func(raft.RPC)) {
	t.beat.Lock()
	defer t.beat.Unlock()
	t.beat.take = take
}

// Consumer returns where Raft takes requests from.
func (t *transport) Consumer() <-chan raft.RPC { return t.inbox }

// Close ends what arrives and the library's transport.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.closed) })
	return errors.Join(t.votes.Close(), t.NetworkTransport.Close())
}

// relay shows requests to look and hands them to Raft, until Close: one after the
// other, so that Raft has taken one before the next is looked at. Heartbeats do not
// come this way.
func (t *transport) relay() {
	for {
		select {
		case rpc := <-t.arrived:
			out, taken := t.look(t, rpc)
			if taken {
				continue
			}
			select {
			case t.inbox <- out:
			case <-t.closed:
				return
			}
		case <-t.closed:
			return
		}
	}
}

// quiet returns once Raft's loop is through with what it has taken. It is for look.
func (t *transport) quiet() {
	said := make(chan raft.RPCResponse, 1)
	// The entries of no leader: it answers, and reads no further than the term.
	old := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	select {
	case t.inbox <- raft.RPC{Command: old, RespChan: said}:
	case <-t.closed:
		return
	}
	select {
	case <-said:
	case <-t.closed:
	}
}

// AppendEntries sends entries, or a heartbeat. A heartbeat never waits: Raft
// sends the next one soon.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	send := func() error {
		return t.again(func() error { return t.NetworkTransport.AppendEntries(id, addr, req, resp) })
	}
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0 {
		return t.again(func() error {
			if sent, err := t.heartbeats.send(addr, req, resp); sent {
				return err
			}
			return t.NetworkTransport.AppendEntries(id, addr, req, resp)
		})
	}
	err := t.patiently(id, req.Term, func() error { return t.kept(send) })
	if err == nil {
		t.stated(id, resp.Term)
	}
	if err == nil && resp.Success {
		t.seen.reached(string(id), req.Term, req.PrevLogEntry+uint64(len(req.Entries)))
	}
	return err
}

// RequestVote asks for a vote. A voter that is asked twice grants it twice.
func (t *transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	err := t.again(func() error { return t.votes.RequestVote(id, addr, req, resp) })
	if err == nil {
		t.stated(id, resp.Term)
	}
	return err
}

// RequestPreVote asks whether a vote would be granted.
func (t *transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.again(func() error { return t.NetworkTransport.RequestPreVote(id, addr, req, resp) })
}

// again sends until there is an answer, as long as what broke may have been an
// idle connection: an error that is not the dial's, and comes at once. It is for
// messages that may be sent twice: not for TimeoutNow, which deposes whom it has
// made a leader.
func (t *transport) again(send func() error) error {
	began := time.Now()
	for tries := 0; ; tries++ {
		err := send()
		var d *dialError
		if err == nil || tries == maxPool || errors.As(err, &d) || time.Since(began) > brokenWithin {
			return err
		}
	}
}

// brokenWithin is how soon a broken connection shows: what takes longer is a
// server that does not answer.
const brokenWithin = 100 * time.Millisecond

// kept sends, and makes an error of the dial's of a stream that is closed at once, over and
// over: what is sent may be sent twice, and the server is one that cannot be reached now.
// Stream.Dial did not pace it, so it does.
func (t *transport) kept(send func() error) error {
	began := time.Now()
	err := send()
	var d *dialError
	if err == nil || errors.As(err, &d) || !cut(err) || time.Since(began) > brokenWithin {
		return err
	}
	pause := time.NewTimer(dialPauseMax)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-t.closed:
	}
	return &dialError{err: err}
}

// cut reports an error of the stream, not of who is at its other end.
func cut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &op) && !op.Timeout()
}

// InstallSnapshot sends a snapshot. Nothing of data is read before the dial.
func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := t.patiently(id, req.Term, func() error {
		return t.NetworkTransport.InstallSnapshot(id, addr, req, resp, data)
	})
	if err == nil && resp.Success {
		t.seen.reached(string(id), req.Term, req.LastLogIndex)
	}
	return err
}

// patiently sends until the server could be reached. Stream.Dial paces it.
func (t *transport) patiently(id raft.ServerID, term uint64, send func() error) error {
	for {
		err := send()
		var d *dialError
		if !errors.As(err, &d) || d.final || !t.waits(id, term) {
			return err
		}
	}
}
