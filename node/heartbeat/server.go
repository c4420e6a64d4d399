package heartbeat

import (
	"bufio"
	"context"
	"sync"

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

	mu      sync.Mutex                     // protects streams
	streams map[string]map[*peer.Conn]bool // open streams, by node
}

// CloseStreams closes the streams of a node, as if the network had closed them. A process that still runs opens
// another stream immediately.
func (s *Server) CloseStreams(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams[node] {
		closeStream(c)
	}
}

// track records an open stream until the returned function is called.
func (s *Server) track(c *peer.Conn) (untrack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		s.streams = map[string]map[*peer.Conn]bool{}
	}
	node := c.Node()
	if s.streams[node] == nil {
		s.streams[node] = map[*peer.Conn]bool{}
	}
	s.streams[node][c] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams[node], c)
		if len(s.streams[node]) == 0 {
			delete(s.streams, node)
		}
	}
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
		frame, err := peer.ReadFrame(in, buf, ack.MaxMessage)
		if err != nil {
			break
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

// parse decodes a heartbeat that was received on c. It returns false and writes a log line if the heartbeat is
// invalid, or if it names another server than the one that c has authenticated.
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
