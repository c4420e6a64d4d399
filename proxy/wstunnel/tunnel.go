package wstunnel

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// Tunnel copies a non-resumable WebSocket. To close it, a Tunnel sends a close frame with the
// reason to both endpoints, and lets them answer before it closes the connections.
type Tunnel struct {
	closeOnce sync.Once
	started   chan struct{} // closed when the tunnel starts to copy; before that, other goroutines write to the connections
	ended     chan struct{} // closed by Finish
	closeDone chan struct{} // closed when closeBoth has returned, or when it can no longer be called
	up        direction     // from the client to the app
	down      direction     // from the app to the client
	// needsLingeringClose is set if the connection of the client must be closed by a lingering
	// close.
	needsLingeringClose atomic.Bool
	abortTimer          *time.Timer // aborts the tunnel after the app stops accepting data; nil if not set
}

// New returns the tunnel between the connection of a client and the connection of the app.
func New(client, app *h1.Conn) *Tunnel {
	tunnel := &Tunnel{started: make(chan struct{}), ended: make(chan struct{}), closeDone: make(chan struct{})}
	tunnel.up.set(app, true)
	tunnel.down.set(client, false)
	return tunnel
}

// Begin permits CopyUp, CopyDown and closeBoth to write.
func (tunnel *Tunnel) Begin() {
	tunnel.up.receiver.Writer().BeginBody(h1.UntilClose, 0)
	tunnel.down.receiver.Writer().BeginBody(h1.UntilClose, 0)
	close(tunnel.started)
}

// StartClose starts to close the WebSocket with a close code of package wsession, and returns
// immediately. The tunnel ends soon after. Only the first call has an effect.
func (tunnel *Tunnel) StartClose(code int) {
	tunnel.closeOnce.Do(func() {
		tunnel.up.closeCode, tunnel.down.closeCode = code, code
		go func() { // ends before Finish returns
			defer close(tunnel.closeDone)
			tunnel.closeBoth()
		}()
	})
}

// Finish must be called when the tunnel has ended. When it returns, no goroutine uses the
// connections.
func (tunnel *Tunnel) Finish() {
	close(tunnel.ended)
	tunnel.closeOnce.Do(func() { close(tunnel.closeDone) }) // later calls of StartClose have no effect
	<-tunnel.closeDone
	if tunnel.abortTimer != nil {
		tunnel.abortTimer.Stop()
	}
}

// closeBoth sends a close frame to both ends, waits for their answers and closes both connections.
// It returns early if ended is closed.
func (tunnel *Tunnel) closeBoth() {
	select {
	case <-tunnel.started:
	case <-tunnel.ended:
		return
	}
	tunnel.up.requestClose()
	tunnel.down.requestClose()
	timer := time.NewTimer(wsession.EndTimeout)
	defer timer.Stop()
	for _, dir := range []*direction{&tunnel.up, &tunnel.down} {
		select {
		case <-dir.replied:
		case <-timer.C:
			timer.Reset(0) // check the other direction without waiting again
		case <-tunnel.ended:
			return
		}
	}
	// A reset would discard the close frame, so a FIN must follow it.
	if tunnel.up.closeSent() {
		_ = tunnel.up.receiver.Close()
	}
	tunnel.Abort()
}

// Abort ends the tunnel after an error. If the client has received a close frame, its connection
// stays open for the response.
func (tunnel *Tunnel) Abort() {
	if tunnel.down.closeSent() {
		tunnel.needsLingeringClose.Store(true)
		tunnel.down.receiver.StopRead()
	} else {
		_ = tunnel.down.receiver.Abort() // its goroutine gets the error
	}
	_ = tunnel.up.receiver.Abort()
}

// NeedsLingeringClose reports whether the connection of the client must be closed by a lingering
// close.
func (tunnel *Tunnel) NeedsLingeringClose() bool { return tunnel.needsLingeringClose.Load() }

// CopyUp copies from the client to the app. It first sends first, the frame of a message that was
// already read, unless that is nil. It returns false if the tunnel must be aborted. If the app
// accepts no more data, the tunnel continues for up to wsession.EndTimeout, because the app may
// have sent the reason in the other direction.
func (tunnel *Tunnel) CopyUp(client *h1.Conn, first []byte) bool {
	err := tunnel.up.send(first)
	if err == nil {
		err = tunnel.up.copyFrom(client)
	}
	if !errors.Is(err, errReceiverFailed) {
		return err == nil
	}
	tunnel.abortTimer = time.AfterFunc(wsession.EndTimeout, tunnel.Abort)
	return true
}

// CopyDown copies from the app to the client. It returns false if the tunnel must be aborted.
func (tunnel *Tunnel) CopyDown(app *h1.Conn) bool { return tunnel.down.copyFrom(app) == nil }

// errReceiverFailed reports that the receiver of a direction accepts no more data.
var errReceiverFailed = errors.New("wstunnel: receiver accepts no more data")

// direction is one direction of a WebSocket tunnel. Its goroutine copies bytes. Another
// goroutine may send a close frame between two copied frames; after that frame, nothing more is
// copied. The atomic state decides which goroutine may write:
//
//	idle ──lockWrite──► busy ──unlockWrite──► idle, or in a frame that has not ended
//	  └─────requestClose─────► closed ◄──unlockWrite, if a close was requested in the meantime
type direction struct {
	receiver      *h1.Conn
	masked        bool
	closeCode     int // set before state contains directionCloseRequested or directionClosed
	state         atomic.Uint32
	frames        wsframe.Tracker
	replied       chan struct{} // closed when a close frame, or the end of the stream, has arrived after this node's close frame
	replySignaled bool          // replied has been closed; used only by the goroutine that copies
}

const (
	directionBusy           uint32 = 1 << iota // the goroutine of the direction is writing
	directionInFrame                           // the last copied frame is incomplete, so no frame can be inserted
	directionCloseRequested                    // a close frame must be sent as soon as possible
	directionClosed                            // our close frame was sent
	directionSenderClosed                      // the sender's close frame was copied to the receiver
)

func (dir *direction) set(dst *h1.Conn, masked bool) {
	dir.receiver, dir.masked, dir.replied = dst, masked, make(chan struct{})
}

// copyFrom copies data from source until it ends, and then closes the sending side of
// the receiver. It returns an error if the tunnel must be aborted.
func (dir *direction) copyFrom(source *h1.Conn) error {
	for {
		data, err := source.ReadData()
		atEOF := errors.Is(err, io.EOF)
		if err != nil && !atEOF {
			return err
		}
		if !dir.lockWrite() {
			if dir.frames.Advance(data); dir.frames.Closed() || atEOF {
				dir.signalReply()
			}
			if atEOF {
				return nil
			}
			continue
		}
		if atEOF { // keep the write lock, because nothing may follow the FIN
			if !dir.receiver.CloseWrite() {
				return errReceiverFailed
			}
			return nil
		}
		if err := dir.write(data); err != nil {
			return err
		}
	}
}

// send sends complete frames before any data is copied, unless this node's close frame has been
// sent.
func (dir *direction) send(frames []byte) error {
	if len(frames) == 0 || !dir.lockWrite() {
		return nil
	}
	return dir.write(frames)
}

// write sends data, and then releases the write lock, which the caller holds.
func (dir *direction) write(data []byte) error {
	writer := dir.receiver.Writer()
	dir.frames.Advance(data)
	if _, err := writer.Write(data); err != nil || writer.Flush() != nil {
		return errReceiverFailed
	}
	writer.ReleaseEmptyBuffer()
	dir.unlockWrite()
	return nil
}

// closeSent reports whether the receiver has been sent a close frame, by this node or by the
// sender.
func (dir *direction) closeSent() bool {
	return dir.state.Load()&(directionClosed|directionSenderClosed) != 0
}

func (dir *direction) signalReply() {
	if !dir.replySignaled {
		dir.replySignaled = true
		close(dir.replied)
	}
}

// lockWrite acquires the right to write. It returns false if this node has sent its own close frame, after
// which nothing may be written.
func (dir *direction) lockWrite() bool {
	for {
		old := dir.state.Load()
		if old&directionClosed != 0 {
			return false
		}
		if dir.state.CompareAndSwap(old, old|directionBusy) {
			return true
		}
	}
}

// unlockWrite releases the right to write. If a close frame was requested and the last frame is
// complete, unlockWrite sends the close frame.
func (dir *direction) unlockWrite() {
	next := uint32(0)
	switch {
	case dir.frames.Closed():
		next = directionInFrame | directionSenderClosed
	case !dir.frames.AcceptsFrame():
		next = directionInFrame
	}
	for {
		old := dir.state.Load()
		if old&directionCloseRequested != 0 && next == 0 {
			dir.state.Store(directionClosed)
			dir.writeClose()
			return
		}
		if dir.state.CompareAndSwap(old, old&directionCloseRequested|next) {
			return
		}
	}
}

// requestClose sends the close frame now, or as soon as the frame that is being copied is complete.
func (dir *direction) requestClose() {
	for {
		old := dir.state.Load()
		switch {
		case old&(directionClosed|directionCloseRequested) != 0:
			return
		case old&(directionBusy|directionInFrame) != 0:
			if dir.state.CompareAndSwap(old, old|directionCloseRequested) {
				return
			}
		case dir.state.CompareAndSwap(old, directionClosed):
			dir.writeClose()
			return
		}
	}
}

// writeClose sends the close frame. The caller has set directionClosed.
func (dir *direction) writeClose() {
	writer := dir.receiver.Writer()
	writer.SetPrecondition(func() (time.Duration, error) { return wsession.CloseFrameTimeout, nil })
	_, _ = writer.Write(wsframe.AppendClose(make([]byte, 0, 64), dir.closeCode, wsession.DefaultReason(dir.closeCode), dir.masked)) // an error does not matter, because the connection ends in any case
	_ = writer.Flush()
}
