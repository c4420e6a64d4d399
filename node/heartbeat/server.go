package heartbeat

import (
	"bufio"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/chanutil"
	"shardway/node/consensus"
	"shardway/node/logs"
	"shardway/peer"
)

// Received is a heartbeat that the leader loop must process.
type Received struct {
	Heartbeat ack.Heartbeat
	// RemoteAddr is the address of the sender.
	RemoteAddr string
	// Respond sends the response of the leader to the sender. It does not block.
	Respond func(ack.Answer)
}

// Server reads the heartbeats of other nodes. Its functions may be called from several goroutines.
type Server struct {
	// Deliver passes a heartbeat to the leader loop. It may wait until ctx ends.
	Deliver func(ctx context.Context, in Received)
	// OnAccepted is called with a heartbeat that the leader has not refused.
	OnAccepted func(ack.Heartbeat)
	// OnClosed is called with the last heartbeat of a stream that the peer or the network has closed.
	OnClosed func(last ack.Heartbeat)
	// InvalidLog limits log lines about invalid heartbeats, by node.
	InvalidLog *logs.PeerLimiter
	Log        zerolog.Logger

	mu      sync.Mutex         // protects the following fields
	streams map[string]streams // open streams, by node
	waits   uint64             // number of the last wait for a heartbeat
}

// streams are the open streams of one node. The value is the number of the current wait for a heartbeat, or zero
// while no goroutine waits for one. Each wait has its own number.
type streams map[*peer.Conn]uint64

// silenceChecks is how often CloseSilentStreams checks that a node is still silent. Because it counts checks, a pause
// of this process does not count as silence of the node.
const silenceChecks = 10

// CloseSilentStreams waits for the given time. Then it closes the streams of a node, as if the network had closed
// them. It closes none if in this time a heartbeat of the node arrived, a heartbeat of the node was delivered, the
// node opened a stream, or ctx ended. mayClose is called after the wait. If it returns false, no stream is closed.
func (s *Server) CloseSilentStreams(ctx context.Context, node string, silence time.Duration, mayClose func() bool) {
	silent := s.silentStreams(node)
	ticker := time.NewTicker(silence / silenceChecks)
	defer ticker.Stop()
	for range silenceChecks {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if len(silent) == 0 || !maps.Equal(silent, s.silentStreams(node)) {
			return
		}
	}
	if mayClose() && s.removeSilent(node, silent) {
		for c := range silent {
			closeStream(c)
		}
	}
}

// silentStreams returns a copy of the streams of a node. The result is empty if a heartbeat of the node is being
// delivered.
func (s *Server) silentStreams(node string) streams {
	s.mu.Lock()
	defer s.mu.Unlock()
	isDelivering := slices.Contains(slices.Collect(maps.Values(s.streams[node])), 0)
	if isDelivering {
		return nil
	}
	return maps.Clone(s.streams[node])
}

// removeSilent removes the streams of a node, so that a heartbeat that arrives now is detected. It returns false if
// the streams are no longer as in silent.
func (s *Server) removeSilent(node string, silent streams) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(silent, s.streams[node]) {
		return false
	}
	delete(s.streams, node)
	return true
}

// track records an open stream until the returned function is called.
func (s *Server) track(c *peer.Conn) (untrack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		s.streams = map[string]streams{}
	}
	node := c.Node()
	if s.streams[node] == nil {
		s.streams[node] = streams{}
	}
	s.streams[node][c] = 0
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams[node], c)
		if len(s.streams[node]) == 0 {
			delete(s.streams, node)
		}
	}
}

// beginWait records that the stream waits for a heartbeat.
func (s *Server) beginWait(c *peer.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen := s.streams[c.Node()][c]; isOpen {
		s.waits++
		s.streams[c.Node()][c] = s.waits
	}
}

// endWait records that the stream has received a heartbeat. It returns false if CloseSilentStreams has closed the
// stream.
func (s *Server) endWait(c *peer.Conn) (isOpen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen = s.streams[c.Node()][c]; isOpen {
		s.streams[c.Node()][c] = 0
	}
	return isOpen
}

// ServeStream reads the heartbeats of one node until c closes or a heartbeat is invalid, and passes them to
// Deliver. A separate goroutine writes the responses, so the leader loop never waits for a socket.
func (s *Server) ServeStream(ctx context.Context, c *peer.Conn) {
	defer s.track(c)()
	defer closeStream(c)
	responses := make(chan ack.Answer, 1)
	var writer sync.WaitGroup
	writerCtx, stopWriter := context.WithCancel(ctx)
	defer writer.Wait()
	defer stopWriter()
	writer.Go(func() { writeResponses(writerCtx, c, responses) })
	in := bufio.NewReaderSize(c, bufferSize)
	var buf []byte
	var last ack.Heartbeat
	remoteAddr := c.RemoteAddr().String()
	for {
		s.beginWait(c)
		frame, err := peer.ReadFrame(in, buf, ack.MaxMessage)
		if err != nil {
			break
		}
		if !s.endWait(c) {
			return // the process runs, so the end of its stream is no sign of a crash
		}
		buf = frame // reused for the next frame
		hb, ok := s.parse(frame, c)
		if !ok {
			break
		}
		last = hb
		s.Deliver(ctx, Received{Heartbeat: hb, RemoteAddr: remoteAddr, Respond: func(response ack.Answer) {
			if response.Refusal == 0 {
				s.OnAccepted(hb)
			}
			chanutil.Replace(responses, response)
		}})
	}
	if hasSentHeartbeat := last.Boot != 0; hasSentHeartbeat && ctx.Err() == nil {
		s.OnClosed(last)
	}
}

// parse decodes a heartbeat that was received on c. It logs the problem and returns false if the heartbeat is
// invalid, or if it names a server other than the one that c has authenticated.
func (s *Server) parse(frame []byte, c *peer.Conn) (hb ack.Heartbeat, ok bool) {
	err := hb.UnmarshalBinary(frame)
	isOfPeer := string(hb.Node) == c.Node() && hb.Server == consensus.ServerID(c.Node(), c.Peer().Disk)
	if err == nil && isOfPeer {
		return hb, true
	}
	if s.InvalidLog.Pass(c.Node()) {
		s.Log.Warn().Err(err).Str("peer", c.Node()).Str("claimed", logs.Cut(string(hb.Node))).Str("server", logs.Cut(hb.Server)).Msg("invalid heartbeat")
	}
	return hb, false
}

// writeResponses writes responses to c until ctx ends. It closes c after an error.
func writeResponses(ctx context.Context, c *peer.Conn, responses <-chan ack.Answer) {
	for {
		select {
		case <-ctx.Done():
			return
		case response := <-responses:
			b, err := response.MarshalBinary()
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
