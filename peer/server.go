package peer

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"shardway/internal/clock"
)

// server is one call of Serve.
type server struct {
	port     *Port
	listener net.Listener
	wg       sync.WaitGroup // the goroutines of run and of all connections

	// mu protects the following fields.
	mu      sync.Mutex
	closed  bool               // no connection may be added
	pending pendingConns       // connections in handshake
	conns   map[*Conn]struct{} // accepted streams
}

func newServer(p *Port, ln net.Listener) *server {
	return &server{port: p, listener: ln, conns: make(map[*Conn]struct{})}
}

func (s *server) run(ctx context.Context) error {
	callerCtx := ctx
	ctx, cancel := context.WithCancel(ctx)
	s.wg.Go(func() {
		<-ctx.Done()
		_ = s.listener.Close()
		s.closeAll()
	})
	if _, ok := s.listener.Addr().(*net.TCPAddr); ok { // newLowLatencyConn changes TCP connections only
		scheduler := s.port.options.Scheduler
		if scheduler == nil {
			scheduler = new(clock.Scheduler)
			s.wg.Go(func() { scheduler.Run(ctx) })
		}
		s.wg.Go(func() { s.port.poller.run(ctx, scheduler) })
		s.wg.Go(func() { s.port.poller.latency.run(ctx, scheduler) })
	}
	err := s.accept(ctx)
	cancel()
	s.wg.Wait()
	if callerCtx.Err() == nil {
		return err
	}
	return nil
}

// accept accepts connections until ctx ends or the listener fails. After temporary errors, such as
// a lack of file descriptors, it pauses and tries again.
func (s *server) accept(ctx context.Context) error {
	const minPause, maxPause = 5 * time.Millisecond, time.Second
	pause := minPause
	for {
		raw, err := s.listener.Accept()
		if err == nil {
			pause = minPause
			s.wg.Go(func() { s.serve(ctx, newLowLatencyConn(raw, &s.port.poller)) })
			continue
		}
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return err
		}
		if s.port.logLimiter.allow(nil, &s.port.options, err.Error()) {
			s.port.options.Log.Error().Err(err).Msg("peer connection not accepted")
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// serve performs the handshake of one connection and calls its handler.
func (s *server) serve(ctx context.Context, raw net.Conn) {
	stream := s.handshake(ctx, raw)
	if stream == nil {
		_ = raw.Close()
		return
	}
	defer s.recoverHandler(stream)
	s.port.handlers[stream.kind](ctx, stream)
}

// recoverHandler recovers from a panic of a handler and closes its stream, so that other streams
// continue.
func (s *server) recoverHandler(stream *Conn) {
	if v := recover(); v != nil {
		s.port.options.Log.Error().Str("peer", stream.Node()).Stringer("kind", stream.Kind()).Any("panic", v).Bytes("stack", debug.Stack()).
			Msg("peer stream panicked: please report this")
		_ = stream.Close()
	}
}

// handshake performs the listener's side of the handshake on raw. It returns nil if that failed;
// the caller closes raw then.
func (s *server) handshake(ctx context.Context, raw net.Conn) *Conn {
	pending := s.addPending(raw)
	if pending == nil {
		return nil
	}
	defer s.removePending(pending)
	if !pending.source.isNode {
		disablePolling(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, s.port.options.HandshakeTimeout)
	defer cancel()
	_ = raw.SetDeadline(time.Now().Add(s.port.options.HandshakeTimeout))
	secured := raw
	if wrap := s.port.options.WrapServer; wrap != nil {
		var err error
		if secured, err = wrap(ctx, raw); err != nil {
			s.rejectTLS(raw, err)
			return nil
		}
	}
	greeting, err := readHello(secured)
	if err != nil {
		s.rejectHello(secured, err)
		return nil
	}
	if refusal := s.port.admit(ctx, secured, greeting); refusal != nil {
		s.refuse(secured, refusal, greeting.sender.Node)
		return nil
	}
	return s.openStream(raw, secured, greeting, pending)
}

// openStream makes a stream of an admitted connection and sends the acceptance.
func (s *server) openStream(raw, secured net.Conn, greeting hello, pending *pendingConn) *Conn {
	port := s.port
	port.setTCPOptions(raw, greeting.kind)
	if n := port.open[greeting.kind].Add(1); n > int64(port.options.maxStreams(greeting.kind)) {
		port.open[greeting.kind].Add(-1)
		s.refuse(secured, newRefusal(RefusedStreamLimit, "%d streams of kind %s are open, as many as may be",
			port.options.maxStreams(greeting.kind), greeting.kind), greeting.sender.Node)
		return nil
	}
	if plain := applyKind(raw, greeting.kind); port.options.WrapServer == nil {
		secured = plain
	}
	stream := &Conn{Conn: secured, kind: greeting.kind, peer: greeting.sender, direct: port.options.WrapServer == nil, onClose: s.removeConn}
	// Promoting comes before the response: an accepted stream must not be evicted.
	if !s.promote(pending, stream) {
		_ = stream.Close()
		return nil
	}
	if err := s.sendAccepted(raw, stream); err != nil {
		s.countFailedHandshake(raw, err)
		_ = stream.Close()
		return nil
	}
	port.counts.accepted.Add(1)
	return stream
}

// sendAccepted sends the acceptance and clears the handshake deadline.
func (s *server) sendAccepted(raw net.Conn, stream *Conn) error {
	b, err := encodeAccepted(s.port.self())
	if err != nil {
		return err
	}
	if _, err := stream.Write(b); err != nil {
		return err
	}
	return raw.SetDeadline(time.Time{})
}

// promote moves a connection from the pending ones to the streams. It returns false if the port is
// closing.
func (s *server) promote(pending *pendingConn, stream *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.remove(pending)
	if s.closed {
		return false
	}
	s.conns[stream] = struct{}{}
	return true
}

// removeConn removes a closed stream.
func (s *server) removeConn(stream *Conn) {
	s.port.open[stream.kind].Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, stream)
}

// addPending adds raw to the pending connections, and closes another one if there are too many. It
// returns nil if the port is closing, or if raw itself is the one too many.
func (s *server) addPending(raw net.Conn) *pendingConn {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	pending, evicted := s.pending.add(raw, &s.port.options)
	s.mu.Unlock()
	if evicted != nil {
		s.port.counts.evicted.Add(1)
		_ = evicted.Close()
	}
	return pending
}

func (s *server) removePending(pending *pendingConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.remove(pending) // does nothing if it was evicted or promoted
}

// closeAll closes all accepted connections and prevents further ones.
func (s *server) closeAll() {
	s.mu.Lock()
	s.closed = true
	var all []net.Conn
	s.pending.each(func(c net.Conn) { all = append(all, c) })
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}
