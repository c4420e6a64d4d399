package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/event"
	"shardway/event/webhook"
)

const target = "https://secret-user:hidden-word@hub.example/path-token?q=query-token"

// cloudEvent is a received event.
type cloudEvent struct {
	SpecVersion, ID, Source, Type, Subject, DataContentType, Occurrence string

	Time time.Time
	Data event.Event
}

// receiver is a receiver in memory.
type receiver struct {
	t     *testing.T
	began time.Time

	mu       sync.Mutex
	respond  func(events []cloudEvent) (status int, header http.Header) // status 0 means no response
	requests []string                                                   // the time, the events and the status of each request
	received []cloudEvent                                               // acknowledged events
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	events := decode(r.t, request.Header, body)
	r.mu.Lock()
	status, header := r.respond(events)
	var names []string
	for _, e := range events {
		name := e.Data.Node
		if e.Data.Kind == event.Lost {
			name = "lost" + strconv.FormatUint(e.Data.Missed, 10)
		}
		names = append(names, name)
	}
	shown := strings.Join(names, ",")
	if len(names) > 4 {
		shown = fmt.Sprintf("%s..%s", names[0], names[len(names)-1])
	}
	r.requests = append(r.requests, fmt.Sprintf("%v %s=%d", time.Since(r.began).Round(100*time.Millisecond), shown, status))
	if status/100 == 2 {
		r.received = append(r.received, events...)
	}
	r.mu.Unlock()
	if status == 0 {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("ignored"))}, nil
}

// acknowledged returns the events that the receiver has acknowledged so far.
func (r *receiver) acknowledged() []cloudEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// decode returns the events of a request, and checks its form.
func decode(t *testing.T, header http.Header, body []byte) []cloudEvent {
	t.Helper()
	if got := header.Get("Content-Type"); got != "application/cloudevents-batch+json; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	if got := header.Get("User-Agent"); got != "shardway/1" {
		t.Errorf("user agent %q", got)
	}
	var events []cloudEvent
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&events); err != nil || len(events) == 0 {
		t.Errorf("body %.200s: %v", body, err)
	}
	for _, e := range events {
		if e.SpecVersion != "1.0" || e.ID == "" || e.Source != "shardway://node/a" || e.Type != "shardway."+e.Data.Kind.String() || e.Subject != e.Data.Node || e.DataContentType != "application/json" || !e.Time.Equal(e.Data.Time) {
			t.Errorf("CloudEvent %+v", e)
		}
	}
	return events
}

// setRespond replaces the responses of the receiver.
func (r *receiver) setRespond(f func([]cloudEvent) (int, http.Header)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = f
}

// status returns responses with a status.
func status(code int) func([]cloudEvent) (int, http.Header) {
	return func([]cloudEvent) (int, http.Header) { return code, nil }
}

// takeRequests returns the requests since the previous call.
func (r *receiver) takeRequests() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := strings.Join(r.requests, " ")
	r.requests = nil
	return requests
}

// names returns the nodes of all acknowledged events.
func (r *receiver) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.received {
		names = append(names, e.Data.Node)
	}
	return names
}

// world is a sender with its ring and its receiver.
type world struct {
	*receiver
	ring   *event.Ring
	sender *webhook.Sender
	stop   context.CancelFunc
	ended  chan struct{}
	log    *bytes.Buffer // read it only after the sender has ended, or when it waits
	count  int           // of events that add has added
}

// run runs f with a sender in virtual time.
func run(t *testing.T, capacity int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{receiver: &receiver{t: t, began: time.Now(), respond: status(204)}, log: new(bytes.Buffer), ended: make(chan struct{})}
		w.ring = event.NewRing(event.Options{Node: "a", RunID: 7, Capacity: capacity})
		var err error
		w.sender, err = webhook.New(webhook.Options{URL: target, Ring: w.ring, Log: zerolog.New(w.log), UserAgent: "shardway/1", Transport: w.receiver})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.stop = cancel
		go func() {
			defer close(w.ended)
			w.sender.Run(ctx)
		}()
		synctest.Wait()
		f(w)
		cancel()
		<-w.ended
		if hasSecret(w.log.String()) {
			t.Errorf("the log contains a secret: %s", w.log)
		}
	})
}

// add adds n events.
func (w *world) add(n int) {
	for range n {
		w.count++
		w.ring.Add(event.Event{Kind: event.NodeJoined, Node: strconv.Itoa(w.count)})
	}
}

func (w *world) expectRequests(want string) {
	w.t.Helper()
	if got := w.takeRequests(); got != want {
		w.t.Errorf("requests %q, want %q", got, want)
	}
}

// metric returns the value of a metric of the sender.
func (w *world) metric(name, result string) float64 {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range w.sender.Collectors() {
		registry.MustRegister(c)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			isResult := result == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == result
			if f.GetName() == "shardway_webhook_"+name && isResult {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	w.t.Errorf("no metric %s %s", name, result)
	return -1
}

func TestEventsAreSentOnceInOrderAndInBatches(t *testing.T) {
	run(t, 0, func(w *world) {
		w.add(2)
		time.Sleep(time.Second)
		w.expectRequests("200ms 1,2=204")
		w.add(1)
		time.Sleep(100 * time.Millisecond)
		w.add(2)
		w.expectRequests("")
		time.Sleep(100 * time.Millisecond)
		w.expectRequests("1.2s 3,4,5=204")
		w.add(150)
		time.Sleep(time.Second)
		w.expectRequests("1.4s 6..69=204 1.4s 70..133=204 1.4s 134..155=204")
		names := w.names()
		for i, name := range names {
			if name != strconv.Itoa(i+1) {
				t.Fatalf("event %d is %s", i+1, name)
			}
		}
		if len(names) != 155 || w.metric("events_total", "delivered") != 155 || w.metric("requests_total", "ok") != 5 || w.metric("undelivered_events", "") != 0 {
			t.Errorf("%d events", len(names))
		}
		w.ring.Add(event.Event{Kind: event.ShardsMoved, Epoch: 18, Shards: []event.MovedShards{{To: "a", Shards: []uint16{1}}}})
		w.ring.Add(event.Event{Kind: event.LeaderElected, Term: 3, Node: "b"})
		time.Sleep(time.Second)
		received := w.acknowledged()
		last := received[len(received)-2:]
		if last[0].Occurrence != "shards-moved/18" || last[1].Occurrence != "leader-elected/3/b" || last[0].Data.Shards != nil || received[0].Occurrence != "" {
			t.Errorf("%+v", last)
		}
	})
}

// A receiver that fails gets the same events again, with growing pauses, until it acknowledges them.
func TestFailedRequestsAreRepeatedWithBackoff(t *testing.T) {
	run(t, 0, func(w *world) {
		w.setRespond(status(500))
		w.add(2)
		time.Sleep(10 * time.Minute)
		requests := strings.Fields(w.takeRequests())
		if n := len(requests) / 2; n < 10 || n > 26 {
			t.Errorf("%d requests in 10 minutes: %q", n, requests)
		}
		if s := w.sender.Status(); s.FailingFor != 10*time.Minute-200*time.Millisecond || s.Error != "status 500 Internal Server Error" || s.Receiver != "https://hub.example/…" || s.Undelivered != 2 || s.Lost != 0 {
			t.Errorf("status %+v", s)
		}
		w.add(1)
		w.setRespond(status(200))
		time.Sleep(time.Minute)
		if got := w.names(); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("received %q", got)
		}
		if s := w.sender.Status(); s.FailingFor != 0 || s.Error != "" || s.Undelivered != 0 {
			t.Errorf("status %+v", s)
		}
		log := w.log.String()
		if n := strings.Count(log, `"webhook failed, will retry"`); n != 2 || !strings.Contains(log, "acknowledges again") || !strings.Contains(log, `"receiver":"https://hub.example/…"`) {
			t.Errorf("%d lines about failures in 10 minutes: %s", n, log)
		}
	})
}

// A receiver that does not respond delays nothing but its own events. Events that leave the ring are counted and reported.
func TestLostEventsAreCountedAndReported(t *testing.T) {
	run(t, 8, func(w *world) {
		w.setRespond(status(0))
		for range 20 {
			w.add(1)
			time.Sleep(time.Minute)
		}
		if lost := w.metric("events_total", "lost"); lost < 11 || lost > 12 {
			t.Errorf("%v events are lost, want 12 or, before the next request, 11", lost)
		}
		w.takeRequests()
		w.setRespond(status(204))
		time.Sleep(2 * time.Minute)
		if got := w.takeRequests(); !strings.Contains(got, " lost12..20=204") {
			t.Errorf("requests %q", got)
		}
		first := w.acknowledged()[0]
		if first.ID != "lost-0000000000000007-12" || first.Data.Reason != event.LostOverrun || first.Data.Missed != 12 || w.metric("events_total", "lost") != 12 || w.metric("events_total", "delivered") != 8 {
			t.Errorf("first %+v", first)
		}
		if n := strings.Count(w.log.String(), "webhook events lost"); n < 2 || n > 3 {
			t.Errorf("%d lines about losses in 12 minutes", n)
		}
		w.add(1)
		time.Sleep(time.Minute)
		if got := w.names(); got[len(got)-1] != "21" || len(got) != 10 {
			t.Errorf("received %q", got)
		}
	})
}

// A request takes up to 15 s.
func TestHangingRequestIsCancelled(t *testing.T) {
	run(t, 0, func(w *world) {
		w.setRespond(status(0))
		w.add(1)
		time.Sleep(15200*time.Millisecond - 1)
		if s := w.sender.Status(); s.FailingFor != 0 {
			t.Errorf("before the timeout: %+v", s)
		}
		time.Sleep(2 * time.Nanosecond)
		if s := w.sender.Status(); s.Error != "no response within 15s" {
			t.Errorf("after the timeout: %+v", s)
		}
	})
}

// A receiver that rejects an event gets smaller batches, until the event is alone. Then the sender skips it.
func TestRejectedEventIsSkipped(t *testing.T) {
	for _, code := range []int{400, 413, 422} {
		run(t, 0, func(w *world) {
			w.setRespond(func(events []cloudEvent) (int, http.Header) {
				if slices.ContainsFunc(events, func(e cloudEvent) bool { return e.Data.Node == "5" }) {
					return code, nil
				}
				return 204, nil
			})
			w.add(9)
			time.Sleep(time.Minute)
			requests := w.takeRequests()
			if got := strings.Join(w.names(), " "); got != "1 2 3 4 6 7 8 9" || w.metric("events_total", "rejected") != 1 || w.metric("events_total", "delivered") != 8 || w.metric("undelivered_events", "") != 0 {
				t.Errorf("%d: received %q in %s", code, got, requests)
			}
			if failed := w.metric("requests_total", "failed"); int(failed) != strings.Count(requests, fmt.Sprintf("=%d", code)) {
				t.Errorf("%d: %v failed requests of %s", code, failed, requests)
			}
			if log := w.log.String(); !strings.Contains(log, `"event":"0000000000000007-5","kind":"node-joined"`) {
				t.Errorf("log %s", log)
			}
		})
	}
}

// A receiver that rejects everything gets every event a few times, also the one that reports lost events.
func TestReceiverThatRejectsEverything(t *testing.T) {
	run(t, 8, func(w *world) {
		w.setRespond(status(400))
		w.add(20)
		time.Sleep(time.Hour)
		if w.metric("undelivered_events", "") != 0 || w.metric("events_total", "delivered") != 0 || w.metric("events_total", "lost")+w.metric("events_total", "rejected") < 20 {
			t.Errorf("after an hour: %s", w.takeRequests())
		}
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	run(t, 0, func(w *world) {
		w.setRespond(func([]cloudEvent) (int, http.Header) { return 429, http.Header{"Retry-After": {"100"}} })
		w.add(1)
		time.Sleep(99 * time.Second)
		w.expectRequests("200ms 1=429")
		w.setRespond(func([]cloudEvent) (int, http.Header) {
			return 503, http.Header{"Retry-After": {time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat)}}
		})
		time.Sleep(2 * time.Second)
		w.expectRequests("1m40.2s 1=503")
		time.Sleep(5*time.Minute - 2*time.Second)
		w.expectRequests("")
		time.Sleep(2 * time.Second) // the limit is 5 min
		w.expectRequests("6m40.2s 1=503")
	})
}

// Another receiver gets the events that the previous one has not acknowledged, without a delay.
func TestURLCanBeReplaced(t *testing.T) {
	run(t, 0, func(w *world) {
		w.setRespond(status(500))
		w.add(1)
		time.Sleep(10 * time.Minute)
		w.takeRequests()
		w.setRespond(status(200))
		if err := w.sender.SetURL("http://other.example/"); err != nil {
			t.Fatal(err)
		}
		w.expectRequests("10m0s 1=200")
		if err := w.sender.SetURL(""); err != nil {
			t.Fatal(err)
		}
		w.add(1)
		time.Sleep(time.Hour)
		w.expectRequests("")
		if s := w.sender.Status(); s != (webhook.Status{}) {
			t.Errorf("without a receiver: %+v", s)
		}
		if err := w.sender.SetURL(target); err != nil {
			t.Fatal(err)
		}
		w.expectRequests("1h10m0s 2=200")
		if err := w.sender.SetURL("ftp://user:hidden-word@x"); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("a wrong URL: %v", err)
		}
	})
}

// At the end, a receiver that works gets the last events. A receiver that does not respond delays the end by 1 s.
func TestLastEventsAreSentAtTheEnd(t *testing.T) {
	run(t, 0, func(w *world) {
		time.Sleep(time.Second)
		w.add(100)
		synctest.Wait()
		w.stop()
		<-w.ended
		if took := time.Since(w.began); len(w.names()) != 100 || took != time.Second {
			t.Errorf("%d events, after %v", len(w.names()), took)
		}
	})
	for _, x := range []struct{ status, want int }{{0, 2000}, {500, 1000}} {
		run(t, 0, func(w *world) {
			w.setRespond(status(x.status))
			w.add(3)
			time.Sleep(time.Second)
			w.stop()
			<-w.ended
			if took := time.Since(w.began); took.Milliseconds() != int64(x.want) || !strings.Contains(w.log.String(), `"events":3,"receiver":"https://hub.example/…","message":"webhook events not delivered before end"`) {
				t.Errorf("status %d: ended after %v: %s", x.status, took, w.log)
			}
		})
	}
}

// An error of the transport can quote a response, and the response can quote the request.
func TestErrorsContainNoSecrets(t *testing.T) {
	broken := roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.New(`malformed HTTP response "/path-token?q=query-token secret-user hidden-word c2VjcmV0LXVzZXI6aGlkZGVuLXdvcmQ=" ` + strings.Repeat("x", 1000))
	})
	log := new(bytes.Buffer)
	synctest.Test(t, func(t *testing.T) {
		ring := event.NewRing(event.Options{Node: "a"})
		sender, err := webhook.New(webhook.Options{URL: target, Ring: ring, Log: zerolog.New(log), Transport: broken})
		if err != nil {
			t.Fatal(err)
		}
		ring.Add(event.Event{Kind: event.NodeJoined, Node: "b"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sender.Run(ctx)
		if s := sender.Status(); s.Error == "" || hasSecret(s.Error) || len(s.Error) > 250 {
			t.Errorf("status %+v", s)
		}
	})
	if text := log.String(); !strings.Contains(text, "malformed") || hasSecret(text) {
		t.Errorf("log %s", text)
	}
}

// hasSecret reports whether a text contains a part of the target that is secret, or its Basic authentication.
func hasSecret(text string) bool {
	return slices.ContainsFunc([]string{"secret-user", "hidden", "-token", "c2VjcmV0"}, func(secret string) bool { return strings.Contains(text, secret) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
