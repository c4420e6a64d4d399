package consensus

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/logs"
)

// maxIdleConns is the number of idle connections to a server: one for entries, one for heartbeats. Each
// needs 512 KB.
const maxIdleConns = 2

// transport is the transport of the Raft library with these corrections:
//
//   - It retries unreachable servers. Each error that the Raft library sees doubles the pause before the next
//     entries for this server, up to 10 s, and a server that has returned must not wait for this. Therefore, a
//     failed dial is not an error while this node leads. Neither is a stream that a server accepts and
//     closes, as an isolated server does.
//   - It repeats a message that was lost with an idle connection. The Raft library never checks whether a
//     connection is still open, and reports the first error. If a voter has restarted in the meantime, this
//     loses a vote and perhaps an election.
//   - It verifies the sender of requests (inbound.go), and passes requests to instance.intercept first.
//
// It embeds the transport of the Raft library to keep the pre-vote, for whose method the Raft library
// checks.
type transport struct {
	*raft.NetworkTransport
	layer        *streamLayer
	matchIndexes *matchIndexTable
	inbox        chan raft.RPC // unbuffered, like that of the Raft library
	// received is unbuffered. It carries requests from the streams to relayLoop.
	received  chan raft.RPC
	closed    chan struct{} // closed by Close
	closeOnce sync.Once
	// voteTransport sends vote requests. Its timeout includes the disk writes of the other server.
	voteTransport   *raft.NetworkTransport
	heartbeatSender heartbeatSender
	// lastLeader is the leader of the highest term whose requests this server has received; nil means none.
	lastLeader atomic.Pointer[termLeader]
	// intercept is instance.intercept.
	intercept func(rpc raft.RPC) (forwarded raft.RPC, isAnswered bool)
	// deliverHeartbeat is instance.deliverHeartbeat.
	deliverHeartbeat func(rpc raft.RPC, libraryHandler func(raft.RPC)) (isDelivered bool)
	// shouldRetry is Raft.shouldRetry.
	shouldRetry func(id raft.ServerID, term uint64) bool
	// onTerm is Options.OnTerm; nil means no call.
	onTerm         func(server string, term uint64)
	onHeartbeat    func()                                              // Options.OnHeartbeat, never nil
	onSnapshot     func(direction string, size int64, d time.Duration) // Options.OnSnapshot, never nil
	messageTimeout time.Duration
	log            zerolog.Logger
	spoofLogLimit  rateLimit // limits log lines about wrong senders

	heartbeatHandler struct {
		sync.Mutex
		handle func(raft.RPC) // heartbeat handler of the Raft library
	}
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// newTransport returns the transport of inst over Options.Stream. It runs until Close. See transport for
// shouldRetry.
func newTransport(inst *instance, matchIndexes *matchIndexTable, shouldRetry func(raft.ServerID, uint64) bool) *transport {
	options := inst.options
	layer := options.Stream.newLayer()
	t := &transport{
		layer:            layer,
		matchIndexes:     matchIndexes,
		inbox:            make(chan raft.RPC),
		received:         make(chan raft.RPC),
		closed:           make(chan struct{}),
		intercept:        inst.intercept,
		deliverHeartbeat: inst.deliverHeartbeat,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:          dialOnlyLayer{layer},
			MaxPool:         maxIdleConns,
			MaxRPCsInFlight: 1,
			Timeout:         options.MessageTimeout,
			Logger:          logs.Hclog(options.Log, "raft-net"),
		}),
		voteTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: voteLayer{dialOnlyLayer{layer}, options.MessageTimeout}, MaxPool: 1, Timeout: max(options.MessageTimeout, 2*maxVoteWait), Logger: logs.Hclog(options.Log, "raft-net"),
		}),
		heartbeatSender: heartbeatSender{dial: layer.Dial, timeout: options.MessageTimeout, byServer: map[raft.ServerAddress]*heartbeatConn{}},
		shouldRetry:     shouldRetry,
		onTerm:          options.OnTerm, onHeartbeat: options.OnHeartbeat, onSnapshot: options.OnSnapshot, messageTimeout: options.MessageTimeout, log: options.Log, spoofLogLimit: rateLimit{interval: time.Second},
	}
	go t.acceptLoop()
	go t.relayLoop()
	return t
}

// SetHeartbeatHandler sets the heartbeat handler of the Raft library.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.heartbeatHandler.Lock()
	defer t.heartbeatHandler.Unlock()
	t.heartbeatHandler.handle = handle
}

// Consumer returns the channel of requests for the Raft library.
func (t *transport) Consumer() <-chan raft.RPC { return t.inbox }

// Close stops the transport.
func (t *transport) Close() error {
	t.closeOnce.Do(func() { close(t.closed) })
	return errors.Join(t.voteTransport.Close(), t.NetworkTransport.Close())
}

// relayLoop passes requests to intercept and then to the Raft library, until Close. It waits until the
// library has accepted a request before it intercepts the next one. Heartbeats do not pass it.
func (t *transport) relayLoop() {
	for {
		select {
		case rpc := <-t.received:
			forwarded, isAnswered := t.intercept(rpc)
			if isAnswered {
				continue
			}
			select {
			case t.inbox <- forwarded:
			case <-t.closed:
				return
			}
		case <-t.closed:
			return
		}
	}
}

// drainLibraryLoop returns once the main loop of the Raft library has responded to all accepted requests. Only
// intercept may call it.
func (t *transport) drainLibraryLoop() {
	done := make(chan raft.RPCResponse, 1)
	// AppendEntries with term 0: the Raft library responds after it has compared the term.
	staleRequest := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	select {
	case t.inbox <- raft.RPC{Command: staleRequest, RespChan: done}:
	case <-t.closed:
		return
	}
	select {
	case <-done:
	case <-t.closed:
	}
}

// AppendEntries sends entries or a heartbeat. It does not retry a heartbeat, because the Raft library
// soon sends the next one.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	send := func() error {
		return t.retryBrokenConn(func() error { return t.NetworkTransport.AppendEntries(id, addr, req, resp) })
	}
	isHeartbeat := req.PrevLogEntry == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
	if isHeartbeat {
		return t.retryBrokenConn(func() error {
			if sent, err := t.heartbeatSender.send(addr, req, resp); sent {
				return err
			}
			return t.NetworkTransport.AppendEntries(id, addr, req, resp)
		})
	}
	err := t.retryUnreachable(id, req.Term, func() error { return t.asDialErrorIfClosed(send) })
	if err != nil {
		return err
	}
	t.reportTerm(id, resp.Term)
	if resp.Success {
		t.matchIndexes.record(string(id), req.Term, req.PrevLogEntry+uint64(len(req.Entries)))
	}
	return nil
}

// RequestVote requests a vote. A voter that receives the request twice grants it twice.
func (t *transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	err := t.retryBrokenConn(func() error { return t.voteTransport.RequestVote(id, addr, req, resp) })
	if err == nil {
		t.reportTerm(id, resp.Term)
	}
	return err
}

// RequestPreVote requests a pre-vote.
func (t *transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.retryBrokenConn(func() error { return t.NetworkTransport.RequestPreVote(id, addr, req, resp) })
}

// retryBrokenConn repeats send while the error may come from a broken idle connection: it is not a
// dial error and occurs quickly. It is for messages that may be sent twice, so not for TimeoutNow:
// the second one would depose the leader that the first one has elected.
func (t *transport) retryBrokenConn(send func() error) error {
	start := time.Now()
	for attempts := 0; ; attempts++ {
		err := send()
		if err == nil || attempts == maxIdleConns {
			return err
		}
		var dialErr *dialError
		isSlow := time.Since(start) > brokenConnTimeout
		if isSlow || errors.As(err, &dialErr) {
			return err
		}
	}
}

// brokenConnTimeout is the time within which a broken connection causes an error. A later error
// means that the server does not respond.
const brokenConnTimeout = 100 * time.Millisecond

// asDialErrorIfClosed runs send and converts an error of a stream that is closed immediately to a dial error.
// The message may be sent twice, and the server is not reachable now. It pauses, because
// Stream.Dial did not.
func (t *transport) asDialErrorIfClosed(send func() error) error {
	start := time.Now()
	err := send()
	var dialErr *dialError
	if err == nil || errors.As(err, &dialErr) || !isStreamError(err) || time.Since(start) > brokenConnTimeout {
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

// isStreamError reports whether err is an error of the stream, not of the server at its other end.
func isStreamError(err error) bool {
	// The decoder of the Raft library wraps the error of a read in an error that errors.As does not unwrap.
	var decodeErr interface{ Cause() error }
	if errors.As(err, &decodeErr) {
		return isStreamError(decodeErr.Cause())
	}
	var opErr *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &opErr) && !opErr.Timeout()
}

// InstallSnapshot sends a snapshot. It reads nothing of data before the connection exists.
func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, snapshot io.Reader) error {
	var startedAt time.Time // of the last attempt
	err := t.retryUnreachable(id, req.Term, func() error {
		startedAt = time.Now()
		return t.NetworkTransport.InstallSnapshot(id, addr, req, resp, snapshot)
	})
	if err == nil && resp.Success {
		t.matchIndexes.record(string(id), req.Term, req.LastLogIndex)
		t.onSnapshot(SnapshotSent, req.Size, time.Since(startedAt))
	}
	return err
}

// retryUnreachable repeats send until the server is reachable. Stream.Dial makes the pauses.
func (t *transport) retryUnreachable(id raft.ServerID, term uint64, send func() error) error {
	for {
		err := send()
		var dialErr *dialError
		if !errors.As(err, &dialErr) || dialErr.permanent || !t.shouldRetry(id, term) {
			return err
		}
	}
}
