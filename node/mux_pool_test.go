package node_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
)

// muxStream opens a mux stream from one node to another, once there is a mux session.
func (w *world) muxStream(from *process, to string) (l *mux.Stream) {
	w.t.Helper()
	w.until("there is a lane from "+from.name+" to "+to, func() bool {
		l = from.node.OpenMuxStream(to)
		return l != nil
	})
	return l
}

// A mux session is encrypted with the secret at the time of its dial. Once the secret is replaced, the session takes no new streams, and
// its open streams run to their end.
func TestStreamsUseNewMuxSessionOnceSecretIsReplaced(t *testing.T) {
	sealed(t, func(w *world, v *vault) {
		v.three()
		from := w.all["a"]
		before := w.muxStream(from, "b")
		w.during(func() {
			if _, err := w.leader().node.Rotate(w.t.Context(), "the test"); err != nil {
				w.t.Error(err)
			}
		})
		if !before.SessionDraining() || !before.WouldBlock() {
			w.t.Errorf("a lane of the old secret is over: %v, and quiet: %v, want both", before.SessionDraining(), before.WouldBlock())
		}
		after := w.muxStream(from, "b")
		if after.SessionConn() == before.SessionConn() || after.SessionDraining() {
			w.t.Error("the next lane goes by the trunk of the old secret")
		}
		w.until("both are served", func() bool { return w.all["b"].node.MuxStreamsOf("a") == 2 })
		_ = before.Close()
		_ = after.Close()
		w.until("both have ended", func() bool { return w.all["b"].node.MuxStreamsOf("a") == 0 })
	})
}

// gatedApp starts an app on a node that responds when answer is closed. asked is the number of requests.
func gatedApp(w *world, p *process) (asked *atomic.Int32, answer chan struct{}) {
	w.t.Helper()
	ln, err := p.host.Listen(":9000")
	if err != nil {
		w.t.Fatal(err)
	}
	asked, answer = new(atomic.Int32), make(chan struct{})
	go func() { // ends with the network
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := bufio.NewReader(conn); ; {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					asked.Add(1)
					<-answer
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	return asked, answer
}

// A stopping node finishes the requests of its mux streams, and serves requests that in the meantime arrive by connections or mux streams. At its
// end it sends the number of the last stream: sessions end with their streams, and none breaks.
func TestStoppingNodeFinishesRequestsOfMuxStreams(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		owner := w.follower()
		from := w.all[w.others(owner)[0]]
		asked, answer := gatedApp(w, owner)
		idle, own := w.muxStream(from, owner.name), w.muxStream(owner, from.name)
		const clients = 20
		var answers []<-chan clientResponse
		for range clients {
			answers = append(answers, ask(w, from, owner.name, "/"))
		}
		w.until("all run", func() bool { return asked.Load() == clients })
		lanes := owner.node.MuxStreamsOf(from.name)
		if lanes < clients/2 {
			w.t.Errorf("%d of %d requests came by lanes", lanes-1, clients)
		}
		owner.stop()
		time.Sleep(100 * time.Millisecond)
		if n := owner.node.MuxStreamsOf(from.name); n != lanes || idle.SessionDraining() {
			w.t.Errorf("%d of %d lanes are left while they run, and the trunk is over: %v", n, lanes, idle.SessionDraining())
		}
		close(answer)
		for _, a := range answers {
			if got := <-a; got != (clientResponse{status: http.StatusOK}) {
				w.t.Errorf("answered %v, want 200", got)
			}
		}
		<-owner.done
		synctest.Wait()
		if _, err := idle.Write([]byte("x")); !errors.Is(err, mux.ErrDraining) || !idle.SessionDraining() {
			w.t.Errorf("Write on a lane of the node that has stopped = %v, want %v: its trunk parts", err, mux.ErrDraining)
		}
		if _, err := own.Write([]byte("x")); !errors.Is(err, net.ErrClosed) || !own.SessionDraining() {
			w.t.Errorf("Write on a lane by a trunk of the node that has stopped = %v, want %v", err, net.ErrClosed)
		}
		if int(asked.Load()) != clients {
			w.t.Errorf("%d runs of %d requests", asked.Load(), clients)
		}
		_, _ = idle.Close(), own.Close()
	})
}
