package proxy_test

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/eventstream"
	"shardway/proxy/route"
)

// An event stream without the resume header, or one that cannot resume reliably, is aborted visibly
// after its grace period.
func TestOtherEventStreamsAreCancelled(t *testing.T) {
	const plain, word = "Content-Type: text/event-stream\r\n", "Shardway-Stream: resume\r\n"
	const ok, one = "HTTP/1.1 200 OK\r\n", "id: 1\ndata: a\n\n"
	for name, tc := range map[string]struct{ request, head, events string }{
		"no word":          {getEvents, ok + plain, one},
		"another word":     {getEvents, ok + plain + "Shardway-Stream: keep\r\n", one},
		"no id":            {getEvents, resumable, "data: a\n\n"},
		"an empty id":      {getEvents, resumable, "id:\ndata: a\n\n"},
		"an id with a NUL": {getEvents, resumable, "id: a\x00b\n\n"},
		"id not yet whole": {getEvents, resumable, "data: a\n\n"},
		"a control byte":   {getEvents, resumable, one + "id: a\x01\n\n"},
		"a long id":        {getEvents, resumable, "id: " + strings.Repeat("x", eventstream.MaxID+1) + "\n\n"},
		"coded":            {getEvents, resumable + "Content-Encoding: gzip\r\n", one},
		"a range":          {getEvents, resumable + "Content-Range: bytes 0-9/10\r\n", one},
		"asked for one":    {strings.Replace(getEvents, "Host", "Range: bytes=0-\r\nHost", 1), resumable, one},
		"a POST":           {strings.Replace(getEvents, "GET", "POST", 1), resumable, one},
		"a body":           {strings.Replace(getEvents, "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi", 1), resumable, one},
		"other content":    {getEvents, ok + word + "Content-Type: text/event-streams\r\n", one},
		"status 206":       {getEvents, "HTTP/1.1 206 Partial Content\r\n" + plain + word, one},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(w *streamWorld) {
				l := w.opens(tc.request).begins(tc.head, tc.events)
				w.reads(tc.events)
				synctest.Wait()
				_ = l.Close()
				w.ends("", false)
			})
		})
	}
}

// A resumable stream with event ids ends at once when its shard moves, and resumes. Without ids, it
// cannot resume reliably and keeps its grace period.
func TestOnlyResumableStreamsEndAtOnce(t *testing.T) {
	for events, grace := range map[string]bool{"id: 1\ndata: a\n\n": false, "data: a\n\n": true} {
		both(t, func(w *streamWorld) {
			t := w.t
			l := w.opens(getEvents).begins(resumable, events)
			w.reads(events)
			began := time.Now()
			w.move(w.first, w.next)
			if took := time.Since(began); (took >= 250*time.Millisecond) != grace {
				t.Errorf("%q ended after %v", events, took)
			}
			<-l.over
			if !grace {
				_, _ = io.WriteString((<-w.legs).begins(resumable, "").Conn, "0\r\n\r\n")
			}
			w.ends("", !grace)
		})
	}
}

// An event stream resumes only with another event stream. Any other response ends it.
func TestUnsuitableResponseEndsResumedStream(t *testing.T) {
	for name, head := range map[string]string{
		"an error":      "HTTP/1.1 500 Oh\r\nContent-Type: text/event-stream\r\nShardway-Stream: resume\r\n",
		"another type":  "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nShardway-Stream: resume\r\n",
		"coded":         resumable + "Content-Encoding: br\r\n",
		"not this time": "HTTP/1.1 204 No Content\r\n\r\n",
		"a redirect":    "HTTP/1.1 302 Found\r\nLocation: /\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(w *streamWorld) {
				t := w.t
				l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
				w.reads("id: 1\n\n")
				w.move(w.first, w.next)
				<-l.over
				l = <-w.legs
				if strings.HasSuffix(head, "\r\n\r\n") {
					_, _ = io.WriteString(l.Conn, head)
				} else {
					l.begins(head, "id: 2\n\n")
				}
				synctest.Wait()
				_ = l.Close()
				w.ends("", false)
				if n := metric(t, w.front, "shardway_stream_resumptions_total", "unfit"); n != 1 {
					t.Errorf("%v streams could not go on, want 1", n)
				}
			})
		})
	}
}

// If the app no longer sends the resume header, the stream resumes for the last time. Interim
// responses of the app do not reach a client that already has its response.
func TestLastResponseNeedsNoResumePermission(t *testing.T) {
	both(t, func(w *streamWorld) {
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		w.move(w.first, w.next)
		l := <-w.legs
		_, _ = io.WriteString(l.Conn, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
		l.begins("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n", "id: 2\n\n")
		w.reads("id: 2\n\n")
		synctest.Wait()
		_ = l.Close()
		w.ends("", false)
	})
}

// A stream that is aborted inside an event longer than the buffer ends, because the client already has
// a part of the event.
func TestStreamCancelledInLongEventEnds(t *testing.T) {
	both(t, func(w *streamWorld) {
		long := "data: " + strings.Repeat("x", eventstream.MaxBuffered)
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n"+long)
		w.reads("id: 1\n\n" + long)
		synctest.Wait()
		_ = l.Close()
		w.ends("", false)
	})
}

// A stream survives two restarts in place within a minute. An owner that restarts keeps its epoch and
// ends its streams twice: when it begins to drain but still accepts requests, and when it ends. Once,
// streams were aborted at the second restart within a minute, as if their app had failed repeatedly.
func TestStreamSurvivesRestartsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStreams(t, false)
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		again := func() {
			t.Helper()
			l = (<-w.legs).begins(resumable, "data: more\n\n")
			w.reads("data: more\n\n")
			synctest.Wait()
		}
		for range 5 {
			synctest.Wait()
			_ = l.Close()
			again()
			w.front.swap(1, 1, held(route.ReasonRestarting))
			_ = l.Close()
			time.Sleep(time.Second)
			w.front.swap(1, 1, remote("first", 1))
			again()
		}
		_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
		w.ends("", true)
	})
}

// The stream of another node continues at an owner that restarts in place, until the owner holds the
// shard. Once, the owner interrupted the stream every 250 ms while it waited for its own clients. The
// ingress resumed it three times, and then ended it.
func TestStreamOfPeerContinuesWhileClientsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStreams(t, false)
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		ownClient := w.first.dial() // its request delays the restart
		ownClient.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		slow := w.another()
		drained := make(chan error, 1)
		go func() { drained <- w.first.DrainClients(t.Context()) }()
		for range 8 {
			time.Sleep(time.Second / 2)
			l.sends("data: more\n\n")
			w.reads("data: more\n\n")
		}
		_, _ = io.WriteString(slow.Conn, "HTTP/1.1 204 No Content\r\n\r\n")
		if _, body := ownClient.head("GET"); body != nil {
			_, _ = io.Copy(io.Discard, body)
		}
		_ = ownClient.Close()
		if err := <-drained; err != nil {
			t.Errorf("DrainClients: %v", err)
		}
		w.first.swap(1, 1, held(route.ReasonRestarting))
		w.front.swap(1, 1, held(route.ReasonRestarting))
		<-l.over
		for _, n := range []*node{w.front, w.next} {
			n.swap(1, 2, held(route.ReasonMoving))
			n.swap(2, 2, remote("next", 2))
		}
		w.next.swap(2, 2, local(2))
		_, _ = io.WriteString(w.another().wants(t, "1", "1").begins(resumable, "").Conn, "0\r\n\r\n")
		w.ends("", true)
	})
}

// A stream whose app breaks it again and again is resumed up to three times a minute.
func TestRepeatedlyBrokenStreamEnds(t *testing.T) {
	both(t, func(w *streamWorld) {
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		for i := range 5 {
			if i == 1 {
				time.Sleep(time.Minute) // until the first break no longer counts
			}
			synctest.Wait()
			_ = l.Close()
			l = (<-w.legs).begins(resumable, "data: more\n\n")
			if i < 4 {
				w.reads("data: more\n\n")
			}
		}
		synctest.Wait()
		_ = l.Close()
		w.ends("", false)
	})
}

// The limit of resumptions applies to each owner separately. Once, three interruptions at previous
// owners ended a stream at the first interruption at its next owner, for example at a planned restart
// of that owner.
func TestLimitOfResumptionsAppliesPerOwner(t *testing.T) {
	both(t, func(w *streamWorld) {
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		at, to := w.first, w.next
		for range 3 {
			for range 3 {
				synctest.Wait()
				_ = l.Close()
				l = w.another().begins(resumable, "data: more\n\n")
				w.reads("data: more\n\n")
			}
			synctest.Wait()
			w.move(at, to)
			at, to = to, at
			l = w.another().begins(resumable, "data: more\n\n")
			w.reads("data: more\n\n")
		}
		_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
		w.ends("", true)
	})
}

// A stream that cannot resume is aborted after the queue wait of a request.
func TestStreamWaitsForNextOwnerLikeRequest(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		began := time.Now()
		for _, n := range []*node{w.front, w.first} {
			n.swap(1, 2, held(route.ReasonMoving))
		}
		w.ends("", false)
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it waited for %v, want the 5 s of queue-wait", took)
		}
		if n := metric(t, w.front, "shardway_stream_resumptions_total", "late"); n != 1 {
			t.Errorf("%v streams were late, want 1", n)
		}
	})
}

// A full request queue does not affect streams, because their clients were admitted long before.
func TestStreamsHaveOwnQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStreams(t, false)
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		var waiting []interface{ Leave() }
		for {
			ticket, err := w.front.room.Enter(^uint32(0), 0)
			if err != nil {
				break
			}
			waiting = append(waiting, ticket)
		}
		w.move(w.first, w.next)
		_, _ = io.WriteString((<-w.legs).begins(resumable, "id: 2\n\n").Conn, "0\r\n\r\n")
		w.ends("id: 2\n\n", true)
		for _, ticket := range waiting {
			ticket.Leave()
		}
	})
}

// A client that leaves while its stream waits to be resumed ends the stream.
func TestDisconnectBetweenResponsesEndsStream(t *testing.T) {
	legs := make(chan *eventStreamConn)
	n := newNode(t, "a", rawApp(t, asker(legs)), func(o *proxy.Options) { o.QueueWait = time.Hour })
	c := n.dial()
	c.send("%s", getEvents)
	l := (<-legs).begins(resumable, "id: 1\n\n")
	if _, body := c.head("GET"); body != nil {
		_, _ = io.ReadFull(body, make([]byte, len("id: 1\n\n")))
	}
	moves(n)
	<-l.over
	until(t, "released", func() bool { return n.running.Load() == 0 })
	_ = c.Close()
	until(t, "let go", func() bool { return metric(t, n, "shardway_resumable_streams") == 0 })
}

// A node that stops ends the streams of its own clients.
func TestStoppingNodeEndsResumableStreams(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		if err := w.front.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-l.over
		w.ends("", false)
	})
}

// When a shard leaves a stopping node, the streams of the node's clients end. The clients must connect
// to another node.
func TestStoppingNodeResumesNoStream(t *testing.T) {
	both(t, func(w *streamWorld) {
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		stopped := make(chan error, 1)
		go func() { stopped <- w.front.Shutdown(w.t.Context()) }()
		synctest.Wait()
		w.move(w.first, w.next)
		w.ends("", false)
		if err := <-stopped; err != nil {
			w.t.Errorf("Shutdown: %v", err)
		}
	})
}

// Streams resume for a client of HTTP/1.0, which does not support chunked encoding, and for an app
// without chunked encoding.
func TestHTTP10StreamIsResumed(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		l := w.opens(strings.Replace(getEvents, "1.1", "1.0", 1))
		_, _ = io.WriteString(l.Conn, resumable+"\r\nid: é\r\r")
		w.reads("id: é\r\r")
		if w.res.TransferEncoding != nil || !w.res.Close {
			t.Errorf("%v, close %v: an old client cannot read that", w.res.TransferEncoding, w.res.Close)
		}
		w.move(w.first, w.next)
		l = (<-w.legs).wants(t, "é", "1")
		_, _ = io.WriteString(l.Conn, resumable+"\r\n\ndata: 2\n\n")
		w.reads("\ndata: 2\n\n")
		_ = l.Close()
		w.ends("", true)
	})
}

// A client that does not read does not delay the move of a shard. If the ingress is the owner, it
// aborts the client's stream. If another node is the owner, the stream is only late.
func TestStalledClientDoesNotDelayMove(t *testing.T) {
	legs := make(chan *eventStreamConn)
	n := newNode(t, "a", rawApp(t, asker(legs)), func(o *proxy.Options) { o.StreamGrace = time.Hour })
	c := n.dial()
	c.send("%s", getEvents)
	l := <-legs
	l.begins(resumable, "id: 1\n\n")
	_, body := c.head("GET")
	if b, err := bufio.NewReader(body).ReadString('\n'); b != "id: 1\n" {
		t.Fatal(b, err)
	}
	for part := chunk("id: 1\ndata: " + strings.Repeat("x", 1<<16) + "\n\n"); ; {
		_ = l.SetWriteDeadline(time.Now().Add(time.Second / 4))
		if _, err := io.WriteString(l.Conn, part); err != nil {
			break // all buffers up to the client are full
		}
	}
	moves(n)
	<-l.over
	until(t, "released", func() bool { return n.running.Load() == 0 })
}

// An app in the node's process never resumes the stream of another app instance. The client's stream
// is aborted, and the client gets nothing of the app's response.
func TestInProcessAppResumesNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		inside := func(o *proxy.Options) {
			o.Handler = func(ctx *fasthttp.RequestCtx) {
				asked++
				ctx.SetContentType("text/event-stream")
				ctx.SetBodyString("id: 2\n\n")
			}
		}
		w := &streamWorld{t: t, legs: make(chan *eventStreamConn)}
		sim := newSim(t)
		w.first = simNode(t, sim, "first", asker(w.legs))
		w.front = simNode(t, sim, "front", nil, inside)
		w.next = w.front
		w.front.knows("first", w.first)
		w.front.swap(1, 1, remote("first", 1))
		l := w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		w.move(w.first, w.front)
		<-l.over
		w.ends("", false)
		if asked > 0 {
			t.Errorf("the app inside the node was asked %d times", asked)
		}
	})
}

// A stream with a Content-Length ends with its upstream connection and does not resume at the next app
// instance.
func TestEventStreamWithLengthIsCancelled(t *testing.T) {
	both(t, func(w *streamWorld) {
		l := w.opens(getEvents)
		_, _ = io.WriteString(l.Conn, resumable+"Content-Length: 1000\r\n\r\nid: 1\n\n")
		w.reads("id: 1\n\n")
		synctest.Wait()
		_ = l.Close()
		w.ends("", false)
	})
}

// A resume request that its app has not answered is sent again, with its own number and the full
// queue-wait, when the shard moves on and drain-timeout has expired. Once, two planned moves in a row
// aborted the stream.
func TestUnansweredResumeFollowsItsShard(t *testing.T) {
	for name, c := range map[string]struct{ local, home bool }{
		"at another node":                    {},
		"that began at the client's node":    {local: true},
		"at the client's node, from another": {home: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStreams(t, c.local)
				at, to := w.next, w.first
				if c.home {
					at, to = w.front, w.next
				}
				w.opens(getEvents).begins(resumable, "id: 1\n\n")
				w.reads("id: 1\n\n")
				w.move(w.first, at)
				w.drains = 4 * time.Second // most of queue-wait
				for n := 1; n <= 4; n++ {
					l := w.another().wants(t, "1", strconv.Itoa(n))
					w.move(at, to)
					<-l.over
					at, to = to, at
				}
				l := w.another().wants(t, "1", "5").begins(resumable, "id: 2\n\n")
				_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
				w.ends("id: 2\n\n", true)
				if n := metric(t, w.front, "shardway_stream_resumptions_total", "resumed"); n != 1 {
					t.Errorf("%v resumptions are counted, want 1", n)
				}
			})
		})
	}
}

// If an owner repeatedly drains resume requests although their shard stays, a stream is resumed up to
// three times a minute once two requests of one epoch were drained.
func TestRepeatedlyDrainedResumeEnds(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		w.move(w.first, w.next)
		asked := 0
		for over := false; !over && asked < 10; {
			select {
			case <-w.legs:
				asked++
				synctest.Wait()
				w.next.CancelShards(allShards, "draining")
			case <-time.After(time.Second):
				over = true
			}
		}
		if asked != 5 {
			t.Errorf("it was asked %d times, want 5", asked)
		}
		w.ends("", false)
	})
}

// The streams of a shard do not count towards --max-shard-inflight, and resume together when the shard
// moves. Once, all but one were aborted because the number of in-flight requests of the shard exceeded
// the limit. The test covers the next owner, and an ingress that is the next owner.
func TestMovedStreamsDoNotExceedLimit(t *testing.T) {
	for name, c := range map[string]struct{ local, home bool }{
		"to another node":            {},
		"from the client's node":     {local: true},
		"home, to the client's node": {home: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newStreams(t, c.local, func(o *proxy.Options) { o.MaxShardInflight = 1 })
			w.opens(getEvents).begins(resumable, "id: 1\n\n")
			w.reads("id: 1\n\n")
			v := &streamWorld{t: t, front: w.front, first: w.first, next: w.next, legs: w.legs}
			v.opens(getEvents).begins(resumable, "id: 1\n\n")
			v.reads("id: 1\n\n")
			next := w.next
			if c.home {
				next = w.front
			}
			w.move(w.first, next)
			synctest.Wait()
			var legs []*eventStreamConn
			for range 2 {
				select {
				case l := <-w.legs:
					legs = append(legs, l)
				default:
					t.Errorf("%s: %d of 2 streams come back together", name, len(legs))
				}
				synctest.Wait()
			}
			for _, l := range legs {
				l.begins(resumable, "id: 2\n\n")
				_, _ = io.WriteString(l, "0\r\n\r\n") // the client receives the missing part
			}
			w.ends("id: 2\n\n", true)
			v.ends("id: 2\n\n", true)
		})
	}
}
