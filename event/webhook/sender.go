package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/event"
	"shardway/internal/address"
)

// Limits of a sender.
const (
	maxBatch      = 64        // events of one request
	maxBatchBytes = 256 << 10 // body of a request with more than one event
	// batchDelay is how long the sender waits for further events before it sends the first one.
	batchDelay = 200 * time.Millisecond

	minBackoff    = time.Second
	maxBackoff    = time.Minute
	maxRetryAfter = 5 * time.Minute

	// maxRejections is how often the receiver must reject an event that is alone in a request, before the sender skips it.
	maxRejections = 3
	// stopTimeout limits the requests when the process ends.
	stopTimeout = time.Second
	// logInterval is the minimum time between two log lines about a receiver that does not acknowledge, and between two
	// log lines about lost events.
	logInterval = 5 * time.Minute
)

// Options configures a Sender.
type Options struct {
	// URL is the URL of the receiver, which address.ParseWebhook must accept; empty means that the sender sends nothing.
	URL string
	// Ring contains the events of the node.
	Ring *event.Ring
	Log  zerolog.Logger
	// UserAgent is the User-Agent header of the requests.
	UserAgent string
	// Transport sends the requests; nil means HTTP and HTTPS with the limits of this package.
	Transport http.RoundTripper
	// RequestTimeout limits the time of one request; zero means 15 s. Only tests set it.
	RequestTimeout time.Duration
}

// Sender sends the events of a node to a receiver.
type Sender struct {
	options  Options
	target   atomic.Pointer[url.URL] // nil means that the sender sends nothing
	retarget chan struct{}           // cap 1: the target has changed
	client   client
	stats    stats

	// The following fields are used only by the goroutine of Run.
	acknowledged string      // ID of the last event that the receiver has acknowledged or rejected, or that was lost
	lost         event.Event // the lost event that the receiver must get; Missed is zero if there is none
	batchLimit   int         // maximum number of events of the next request
	rejections   int         // rejections in a row of an event that was alone in a request
	backoff      time.Duration
	failureLogAt time.Time // of the last log line about a failure
	lossLogAt    time.Time // of the last log line about lost events
}

// New returns a sender. It starts nothing. It returns an error if the URL is invalid.
func New(options Options) (*Sender, error) {
	cursor, err := options.Ring.Read("")
	if err != nil {
		return nil, err
	}
	s := &Sender{options: options, retarget: make(chan struct{}, 1), client: newClient(&options), batchLimit: maxBatch, acknowledged: cursor.After()}
	if err := s.SetURL(options.URL); err != nil {
		return nil, err
	}
	select {
	case <-s.retarget: // the first target is no change
	default:
	}
	return s, nil
}

// SetURL replaces the URL of the receiver; empty means that the sender sends nothing. The new receiver gets the events
// that the previous one has not acknowledged. SetURL returns an error without any part of the URL if it is invalid.
func (s *Sender) SetURL(text string) error {
	var target *url.URL
	if text != "" {
		var err error
		if target, err = address.ParseWebhook(text); err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
	}
	previous := s.target.Swap(target)
	isSame := target == nil && previous == nil || target != nil && previous != nil && target.String() == previous.String()
	if isSame {
		return nil
	}
	select {
	case s.retarget <- struct{}{}:
	default:
	}
	return nil
}

// Run sends events until ctx ends. Then it sends the remaining events for up to 1 s, unless the last request failed.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.close()
	for ctx.Err() == nil {
		target := s.target.Load()
		events, moreAvailable := s.next()
		switch {
		case target == nil:
			s.wait(ctx, nil, nil)
		case len(events) == 0:
			s.wait(ctx, moreAvailable, nil)
		default:
			if pause := s.deliver(ctx, target, events); pause > 0 {
				s.wait(ctx, nil, time.After(pause))
			}
		}
	}
	s.finish(context.WithoutCancel(ctx))
}

// wait returns when wake is closed, the pause is over, the target has changed, or ctx ends. A nil channel never wakes.
func (s *Sender) wait(ctx context.Context, wake <-chan struct{}, pause <-chan time.Time) {
	select {
	case <-wake:
		s.collect(ctx)
	case <-pause:
	case <-s.retarget:
		s.backoff, s.rejections, s.batchLimit, s.failureLogAt = 0, 0, maxBatch, time.Time{}
		s.stats.recordTarget()
	case <-ctx.Done():
	}
}

// collect waits for batchDelay, so that events of one change are in one request.
func (s *Sender) collect(ctx context.Context) {
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// next returns the next events for the receiver, and a channel that is closed when there are further ones. It counts the
// events that the ring has dropped; the first of the returned events then reports them.
func (s *Sender) next() (events []event.Event, moreAvailable <-chan struct{}) {
	cursor, err := s.options.Ring.Read(s.acknowledged)
	if err != nil {
		panic(err) // all IDs are of the ring
	}
	events, moreAvailable = cursor.Next(s.batchLimit)
	if len(events) > 0 && events[0].Kind == event.Lost {
		lost := events[0]
		events = events[1:]
		s.acknowledged = lost.ID
		s.stats.seen.Store(lost.Seq)
		if s.target.Load() != nil { // otherwise no receiver waits for them
			s.recordLoss(lost)
		}
	}
	if s.lost.Missed > 0 {
		events = append([]event.Event{s.lost}, events...)
	}
	events = events[:min(len(events), s.batchLimit)]
	return events, moreAvailable
}

// recordLoss counts the events that lost reports, and logs them.
func (s *Sender) recordLoss(lost event.Event) {
	s.stats.lost.Add(lost.Missed)
	lost.Missed += s.lost.Missed
	s.lost = lost
	if isLogDue(&s.lossLogAt) {
		s.options.Log.Warn().Uint64("lost", s.stats.lost.Load()).Msg("webhook events lost")
	}
}

// isLogDue reports whether logInterval has passed since the time last, and then sets last to now. Zero means never.
func isLogDue(last *time.Time) bool {
	now := time.Now()
	if !last.IsZero() && now.Sub(*last) < logInterval {
		return false
	}
	*last = now
	return true
}

// deliver sends a batch with the first of the events, and returns the time to wait before the next request.
func (s *Sender) deliver(ctx context.Context, target *url.URL, events []event.Event) (pause time.Duration) {
	body, count, err := encode(events, maxBatchBytes)
	if err != nil {
		return s.skip(&events[0], err) // cannot happen: JSON can represent all values of an event
	}
	response, err := s.client.send(ctx, target, body)
	switch {
	case err == nil:
		s.recordSuccess(target, events[:count])
		return 0
	case ctx.Err() != nil:
		return 0
	case response.isRejection() && count > 1:
		s.recordFailure(target, err, minBackoff)
		s.batchLimit = count / 2
		return minBackoff
	case response.isRejection():
		s.rejections++
		if s.rejections >= maxRejections {
			s.recordFailure(target, err, minBackoff)
			return s.skip(&events[0], err)
		}
	}
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	pause = s.backoff/2 + rand.N(s.backoff/2) //nolint:gosec // no secret
	pause = max(pause, min(response.retryAfter, maxRetryAfter))
	s.recordFailure(target, err, pause)
	return pause
}

// skip gives up an event that the receiver has rejected with err.
func (s *Sender) skip(rejected *event.Event, err error) (pause time.Duration) {
	s.rejections = 0
	s.acknowledge(rejected)
	s.stats.rejected.Add(1)
	s.options.Log.Warn().Err(err).Str("event", rejected.ID).Stringer("kind", rejected.Kind).Msg("webhook event rejected by receiver")
	return minBackoff
}

// acknowledge continues after an event.
func (s *Sender) acknowledge(last *event.Event) {
	s.acknowledged, s.lost = last.ID, event.Event{}
	s.stats.seen.Store(last.Seq)
}

// recordSuccess records that the receiver has acknowledged events.
func (s *Sender) recordSuccess(target *url.URL, events []event.Event) {
	for i := range events {
		if events[i].Kind != event.Lost {
			s.stats.delivered.Add(1)
		}
	}
	s.acknowledge(&events[len(events)-1])
	s.backoff, s.rejections, s.batchLimit = 0, 0, min(2*s.batchLimit, maxBatch)
	if s.stats.recordRequest("") && !s.failureLogAt.IsZero() {
		s.failureLogAt = time.Time{}
		s.options.Log.Info().Str("receiver", address.RedactURL(target.String())).Msg("webhook receiver acknowledges again")
	}
}

// recordFailure records that a request has failed, and logs it. pause is the time until the next request.
func (s *Sender) recordFailure(target *url.URL, err error, pause time.Duration) {
	s.stats.recordRequest(err.Error())
	if isLogDue(&s.failureLogAt) {
		s.options.Log.Warn().Err(err).Str("receiver", address.RedactURL(target.String())).Dur("retry_in", pause).Msg("webhook failed, will retry")
	}
}

// finish sends the remaining events when the process ends, unless the last request failed, and logs how many are left.
func (s *Sender) finish(ctx context.Context) {
	target := s.target.Load()
	if target == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for s.stats.failingSince.Load() == 0 && ctx.Err() == nil {
		events, _ := s.next()
		if len(events) == 0 {
			return
		}
		s.deliver(ctx, target, events)
	}
	if left := s.undelivered(); left > 0 {
		s.options.Log.Warn().Uint64("events", left).Str("receiver", address.RedactURL(target.String())).Msg("webhook events not delivered before end")
	}
}

// undelivered returns the number of events that the receiver has not acknowledged.
func (s *Sender) undelivered() uint64 {
	if s.target.Load() == nil {
		return 0
	}
	newest, seen := s.options.Ring.Newest(), s.stats.seen.Load()
	return newest - min(seen, newest)
}
